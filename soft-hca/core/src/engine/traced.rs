//! Events of the data path that are no work requests or completions, for whoever records it.

use std::sync::atomic::Ordering::Acquire;

use crate::arena::Arena;
use crate::engine::actor::Actor;
use crate::engine::asynchronous::{Async, Subject};
use crate::engine::env::Env;
use crate::engine::proc::DAEMON;
use crate::trace::event::{Packet, Raised};

/// The receive that a message has gone into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MatchedReceive {
    /// Number of its queue pair.
    pub qpn: u32,
    /// The program's name for it.
    pub wr_id: u64,
}

/// Traces a packet of the link to another host, which is about its queue pair's process.
pub fn trace_packet(arena: &Arena, env: &dyn Env, packet: impl FnOnce() -> Packet) {
    if arena.is_traced() {
        trace(arena, env, packet());
    }
}

#[cold]
fn trace(arena: &Arena, env: &dyn Env, packet: Packet) {
    let proc = arena.qp(packet.qpn).map_or(DAEMON as u32, |qp| qp.proc.load(Acquire));
    env.trace(proc, &packet.into(), &[]);
}

/// Traces an asynchronous event that is about to be raised.
pub(super) fn trace_raised(actor: &Actor<'_>, what: Async) {
    actor.trace(|env| {
        let arena = actor.arena;
        let proc = match what.subject() {
            Subject::Cq(cq) => arena.cqs.get(cq as usize).map(|cq| &cq.proc),
            Subject::Srq(srq) => arena.srqs.get(srq as usize).map(|srq| &srq.proc),
            Subject::Qp(qpn) => arena.qp(qpn).map(|qp| &qp.proc),
        };
        let Some(proc) = proc else { return };
        let (kind, index) = what.to_words();
        env.trace(proc.load(Acquire), &Raised { kind, index }.into(), &[]);
    });
}
