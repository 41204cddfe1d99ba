//! Doing what could not be done while locks were held.

use crate::engine::actor::Actor;
use crate::engine::deferred::Deferred;
use crate::engine::traced::trace_raised;
use crate::engine::{flush, notification};

/// Does what was collected. The caller holds no lock.
pub(super) fn carry_out(actor: &Actor<'_>, deferred: &mut Deferred) {
    loop {
        if let Some(qpn) = deferred.failed_peers.pop() {
            flush::sends(actor, qpn, deferred);
        } else if let Some(qpn) = deferred.overrun.pop() {
            flush::fail_overrun(actor, qpn, deferred);
        } else {
            break;
        }
    }
    deferred.wakes.drain(..).for_each(|wake| notification::wake(actor, wake));
    for what in deferred.raised.drain(..) {
        trace_raised(actor, what);
        actor.env.raise(what);
    }
    for qpn in deferred.link_doorbells.drain(..) {
        actor.env.link_doorbell(qpn);
    }
    for (qpn, after_ns) in deferred.rescheduled.drain(..) {
        actor.env.reschedule(qpn, after_ns);
    }
    for (qpn, due_ns) in deferred.put_off.drain(..) {
        actor.env.put_off(qpn, due_ns);
    }
}
