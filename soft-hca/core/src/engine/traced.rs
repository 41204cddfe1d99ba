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
use crate::uapi::verbs::{WrOpcode, opcode};

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

/// The process of a queue pair's peer, if it wants to know of operations at its memory.
pub(super) fn who_wants_operations(arena: &Arena, qp: &Qp) -> Option<usize> {
    let target = local_peer(arena, qp)?.proc.load(Acquire) as usize;
    let wants = |proc: &Proc| proc.wants_operations.load(Acquire) != 0;
    arena.procs.get(target).is_some_and(wants).then_some(target)
}

/// The operation of a request at its peer's memory, and the address there; `None` of one that names none.
pub(super) fn operation(wqe: &SendWqe<'_>) -> Option<(OperationKind, u64)> {
    match wqe.opcode {
        opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM => {
            Some((OperationKind::Write, wqe.remote().addr))
        }
        opcode::RDMA_READ => Some((OperationKind::Read, wqe.remote().addr)),
        opcode if WrOpcode(opcode).fetches() => {
            Some((OperationKind::Atomic, wqe.atomic().remote.addr))
        }
        _ => None,
    }
}

/// Whether a request does something at its peer's memory, or tells its peer's program something.
pub(super) fn concerns_peer(wqe: &SendWqe<'_>) -> bool {
    operation(wqe).is_some() || WrOpcode(wqe.opcode).takes_receive()
}

/// Tells the target's process of a message that has come, or of an RDMA or atomic operation that was executed at its
/// memory, if it wants to know: before any completion says so.
pub(super) fn tell_target(
    actor: &Actor<'_>,
    qp: &Qp,
    by: usize,
    wqe: &SendWqe<'_>,
    (qpn, length): (u32, u32),
) {
    let arena = actor.arena;
    if !arena.is_watched() {
        return;
    }
    if !concerns_peer(wqe) {
        return;
    }
    let Some(target) = who_wants_operations(arena, qp) else { return };
    let pid = arena.procs.get(by).map_or(0, |proc| proc.pid.load(Acquire));
    let origin = wqe.origin().unwrap_or_default();
    let place = arena.places.get(by).map(|places| places.get(origin.place)).unwrap_or_default();
    let moment = arena.clocks.get(by).map_or(0, |clocks| clocks.whole(origin.moment));
    let (to, wr_id, peer) = (qp.dest_qpn.load(Acquire), wqe.wr_id, by as u32);
    let tell = |kind, address| {
        let told = Operation { kind, address, length, qpn, to, wr_id, peer, pid, moment, place };
        arena.operations[target].add(&told);
    };
    operation(wqe).into_iter().for_each(|(kind, address)| tell(kind, address));
    if WrOpcode(wqe.opcode).takes_receive() {
        tell(OperationKind::Message, 0);
    }
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
