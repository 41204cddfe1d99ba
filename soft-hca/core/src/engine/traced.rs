//! Events of the data path that are no work requests or completions, for whoever records it.

use std::sync::atomic::Ordering::Acquire;

use crate::arena::{Arena, Operation, OperationKind, Proc, Qp};
use crate::engine::actor::Actor;
use crate::engine::asynchronous::{Async, Subject};
use crate::engine::env::Env;
use crate::engine::proc::DAEMON;
use crate::engine::route::local_peer;
use crate::trace::event::{Packet, Raised};
use crate::uapi::rxe::SendWqe;
use crate::uapi::verbs::opcode;

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

/// Tells the target's process of an RDMA or atomic operation that was executed at its memory, if it wants to know: before
/// any completion says so.
pub(super) fn tell_target(
    actor: &Actor<'_>,
    qp: &Qp,
    by: usize,
    wqe: &SendWqe<'_>,
    (qpn, length): (u32, u32),
) {
    if !actor.arena.is_watched() {
        return;
    }
    let (kind, address) = match wqe.opcode {
        opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM => {
            (OperationKind::Write, wqe.remote().addr)
        }
        opcode::RDMA_READ => (OperationKind::Read, wqe.remote().addr),
        opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD => {
            (OperationKind::Atomic, wqe.atomic().remote.addr)
        }
        _ => return,
    };
    let Some(peer) = local_peer(actor.arena, qp) else { return };
    let target = peer.proc.load(Acquire) as usize;
    let wants = |proc: &Proc| proc.wants_operations.load(Acquire) != 0;
    if !actor.arena.procs.get(target).is_some_and(wants) {
        return;
    }
    let pid = actor.arena.procs.get(by).map_or(0, |proc| proc.pid.load(Acquire));
    let wr_id = wqe.wr_id;
    actor.arena.operations[target].add(&Operation { kind, address, length, qpn, wr_id, pid });
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
