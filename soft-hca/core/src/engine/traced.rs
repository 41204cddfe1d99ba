//! Events of the data path, for whoever records it.
//!
//! As long as nobody does this costs a look at a word that is read anyway.

use std::sync::atomic::Ordering::Acquire;

use crate::arena::Arena;
use crate::engine::{Actor, Async, DAEMON, Env, Subject};
use crate::trace::event::{Packet, Raised};

/// The receive that a message has gone into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MatchedReceive {
    /// Number of its queue pair.
    pub qpn: u32,
    /// The program's name for it.
    pub wr_id: u64,
}

#[cold]
fn traced(write: impl FnOnce()) {
    write();
}

/// Traces a packet of the link to another host, which is about its queue pair's process.
pub fn trace_packet(arena: &Arena, env: &dyn Env, packet: impl FnOnce() -> Packet) {
    if arena.is_traced() {
        traced(|| {
            let packet = packet();
            let proc = arena.qp(packet.qpn).map_or(DAEMON as u32, |qp| qp.proc.load(Acquire));
            env.trace(proc, &packet.into(), &[]);
        });
    }
}

impl Actor<'_> {
    /// Whether somebody records.
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.arena.is_traced()
    }

    /// Has an event traced, if somebody records.
    #[inline]
    pub(super) fn trace(&self, write: impl FnOnce(&dyn Env)) {
        if self.is_traced() {
            traced(|| write(self.env));
        }
    }

    /// Traces an asynchronous event that is about to be raised.
    pub(super) fn trace_raised(&self, what: Async) {
        self.trace(|env| {
            let arena = self.arena;
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
}
