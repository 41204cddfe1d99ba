//! When requests are executed: ordinarily at once. Only here a queue pair whose
//! requests are put off ([`strict`], [`delayed_writes`]) differs from others.

use std::sync::atomic::Ordering::Acquire;

use crate::arena::Qp;
use crate::engine::actor::Actor;
use crate::engine::deferred::Deferred;
use crate::engine::proc::{DAEMON, LINK};
use crate::engine::request::Requester;
use crate::engine::strict_choice::is_strict;
use crate::engine::turn::Turn;
use crate::engine::{delayed_writes, strict};

/// The share of `limit` requests from the head on that is executed in this step. `None` if none is,
/// and the daemon comes back. The caller holds the `send_lock`; the daemon also holds what the request
/// at the head needs.
#[inline]
pub(super) fn turn(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    limit: u32,
    deferred: &mut Deferred,
) -> Option<Turn> {
    if is_put_off(actor, requester.qp) {
        late_turn(actor, requester, limit, deferred)
    } else {
        Some(Turn::at_once(limit))
    }
}

/// The daemon is about to run a queue pair's send queue: what else is due of it is done.
#[inline]
pub(super) fn before_run(actor: &Actor<'_>, qpn: u32, deferred: &mut Deferred) {
    if actor.me == DAEMON && actor.arena.qp(qpn).is_some_and(is_strict) {
        strict::land_due(actor, qpn, deferred);
    }
}

/// Whether requests of a queue pair may be put off, or the one at the head is.
#[inline]
pub(super) fn is_put_off(actor: &Actor<'_>, qp: &Qp) -> bool {
    qp.put_off_until_ns.load(Acquire) != 0 || delayed_writes::is_requested(actor) || is_strict(qp)
}

#[cold]
fn late_turn(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    limit: u32,
    deferred: &mut Deferred,
) -> Option<Turn> {
    if !is_strict(requester.qp) {
        return delayed_writes::turn(actor, requester, limit, deferred);
    }
    match actor.me {
        DAEMON => strict::turn(actor, requester, limit, deferred),
        // The link's thread sends datagrams that the daemon has put off.
        LINK => Some(Turn::at_once(limit)),
        // A program that looks after its peer's queue does not know what is on its way. The daemon comes back.
        _ => None,
    }
}

/// The request at the head was executed: the next one is not put off yet.
#[inline]
pub(super) fn executed(qp: &Qp) {
    if qp.put_off_until_ns.load(Acquire) != 0 {
        delayed_writes::executed(qp);
    }
}
