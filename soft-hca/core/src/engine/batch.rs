//! Sends, RDMA writes and RDMA reads of connected queue pairs: as many as go together are planned
//! first, then moved by one system call, then completed.
//!
//! A message gets its completions only after the bytes of the whole batch have moved. If they
//! cannot be moved, they are moved once more message by message, to know which one is to blame;
//! those before it count, those behind it were never begun.

use std::sync::atomic::Ordering::Acquire;

use soft_hca_verbs::cause::{Cause, Malformed, MemoryRole};

use crate::engine::actor::Actor;
use crate::engine::check::CheckError;
use crate::engine::deferred::Deferred;
use crate::engine::plan::{Batch, Message, NotPlanned, plan};
use crate::engine::request::{Requester, SendCompletion};
use crate::engine::request_error::RequestError;
use crate::engine::responder::{FailedReceive, ReceiveCompletion, Responder};
use crate::engine::segments::Fault;
use crate::engine::traced::MatchedReceive;
use crate::engine::turn::{Bytes, Turn};
use crate::engine::{eager, incoming, wc_status};
use crate::uapi::rxe::SendWqe;
use crate::uapi::verbs::{WrOpcode, opcode, qp_type};

/// Executes messages from the head of the queue on; gives how many.
pub(super) fn transfer<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    turn: Turn,
    deferred: &mut Deferred,
) -> Result<u32, RequestError> {
    let responder = requester.responder(actor);
    if requester.kind == qp_type::RC && responder.is_none() {
        return Err(RequestError::NoResponse);
    }
    let head = requester.head();
    let first = requester.wqe(head).opcode;
    let is_read = first == opcode::RDMA_READ;
    // Receive work requests that cannot be put back are consumed one at a time. So are requests
    // that lead from a process into itself: one may pass on what the one before it has brought,
    // and bytes that are moved together may all be read before any is written.
    let is_single = responder.as_ref().is_some_and(|responder| {
        responder.is_shared() || responder.owner.proc == requester.owner.proc
    });
    if let Some(responder) = responder.as_ref().filter(|_| WrOpcode(first).is_send()) {
        // Comes while the batch is planned.
        eager::prefetch(actor.arena, responder.qp.recv_cq.load(Acquire));
    }
    let mut batch = Batch::new(if is_single { 1 } else { turn.limit });
    batch.is_moved = turn.bytes == Bytes::Moved;
    while batch.has_capacity() {
        let wqe = requester.wqe(head.wrapping_add(batch.messages.len() as u32));
        let marks = (batch.local.mark(), batch.remote.mark());
        let goes_with = (wqe.opcode == opcode::RDMA_READ) == is_read;
        let planned = if goes_with && !requester.is_fenced(&wqe) {
            plan(actor, requester, responder.as_ref(), &wqe, &mut batch, deferred)
        } else {
            Err(NotPlanned::Yet)
        };
        match planned {
            // The next message must not use the key that this one invalidates.
            Ok(()) if wqe.opcode == opcode::SEND_WITH_INV => break,
            Ok(()) => {}
            Err(reason) if batch.messages.is_empty() => {
                return not_planned(actor, requester, responder, &wqe, reason, deferred);
            }
            // The error shows again when the message is at the head.
            Err(_) => {
                batch.local.restore(marks.0);
                batch.remote.restore(marks.1);
                break;
            }
        }
    }
    move_batch(actor, requester, responder, &batch, is_read, deferred)
}

/// The message at the head is not executed; gives how many are done with.
#[cold]
fn not_planned<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    mut responder: Option<Responder<'a>>,
    wqe: &SendWqe<'_>,
    reason: NotPlanned,
    deferred: &mut Deferred,
) -> Result<u32, RequestError> {
    let (error, receive) = match reason {
        // Only a program that changes what it has posted gets here.
        NotPlanned::Yet => return Err(CheckError::malformed(Malformed::Opcode).into()),
        NotPlanned::Requester(stop) => return Err(stop),
        NotPlanned::Responder(error, receive) => (error, receive),
    };
    match (&mut responder, receive) {
        (Some(responder), None) => responder.refuse(actor, error.status(), deferred),
        (Some(responder), Some(failed)) => responder.fail(actor, Some(&failed), deferred),
        (None, _) => {}
    }
    if requester.kind == qp_type::RC {
        return Err(error.into());
    }
    drop(responder);
    requester.complete(actor, [(SendCompletion::of(wqe, 0), None)], None, deferred);
    Ok(1)
}

/// Moves the planned messages and completes them.
fn move_batch<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    responder: Option<Responder<'a>>,
    batch: &Batch<'_>,
    is_read: bool,
    deferred: &mut Deferred,
) -> Result<u32, RequestError> {
    let Some(responder) = responder else {
        return Ok(finish(actor, requester, None, &batch.messages, deferred));
    };
    if batch.receives > 0 {
        // Comes while the bytes move.
        responder.prefetch_receive_completion(actor);
    }
    let done = match move_bytes(actor, requester, &responder, batch, None, is_read) {
        Ok(()) => &batch.messages[..],
        Err(fault) => {
            let (good, fault) = move_again(actor, requester, &responder, batch, is_read, fault);
            match fault {
                Some(fault) if good.is_empty() => {
                    return fail_move(
                        actor,
                        requester,
                        responder,
                        batch,
                        (is_read, fault),
                        deferred,
                    );
                }
                // The error shows again when the message is at the head.
                _ => good,
            }
        }
    };
    Ok(finish(actor, requester, Some(responder), done, deferred))
}

/// The bytes of a batch could not be moved: moves them message by message. Gives those that
/// have moved, and what is the matter with the next one.
#[cold]
fn move_again<'a, 'm>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    responder: &Responder<'a>,
    batch: &'m Batch<'_>,
    is_read: bool,
    fault: Fault,
) -> (&'m [Message], Option<Fault>) {
    // A process that is not reached is not reached by any of them, and finding that out may have
    // taken seconds.
    if fault == Fault::Unreachable {
        return (&[], Some(fault));
    }
    for (index, message) in batch.messages.iter().enumerate() {
        if let Err(fault) = move_bytes(actor, requester, responder, batch, Some(message), is_read) {
            return (&batch.messages[..index], Some(fault));
        }
    }
    (&batch.messages, None)
}

/// The bytes of the message at the head cannot be moved.
#[cold]
fn fail_move<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    mut responder: Responder<'a>,
    batch: &Batch<'_>,
    (is_read, fault): (bool, Fault),
    deferred: &mut Deferred,
) -> Result<u32, RequestError> {
    let received = batch.messages.first().and_then(|message| message.received);
    let is_local = matches!((fault, is_read), (Fault::Source, false) | (Fault::Destination, true));
    let (stop, failed_receive) = match fault {
        Fault::Unreachable => (RequestError::NoResponse, None),
        _ if is_local => (CheckError::unmapped(MemoryRole::Local).into(), None),
        _ => {
            let (error, receive) = blame(&responder, received);
            (error.into(), receive)
        }
    };
    if let (Some(received), None) = (received, &failed_receive) {
        responder.give_back(actor, received.wr_id, deferred);
    }
    let is_rc = requester.kind == qp_type::RC;
    match (&stop, failed_receive) {
        (_, Some(failed)) => responder.fail(actor, Some(&failed), deferred),
        (RequestError::Failed(error), None) if is_rc && !is_local => {
            responder.refuse(actor, error.status(), deferred);
        }
        _ => {}
    }
    if is_rc || is_local {
        return Err(stop);
    }
    drop(responder);
    let done = batch.messages.iter().take(1).map(|message| (message.done, None));
    let count = done.len() as u32;
    requester.complete(actor, done, None, deferred);
    Ok(count)
}

/// Moves the bytes of all messages or of one.
fn move_bytes(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    responder: &Responder<'_>,
    batch: &Batch<'_>,
    only: Option<&Message>,
    is_read: bool,
) -> Result<(), Fault> {
    let is_lost = only.is_some_and(|message| message.is_lost);
    if batch.local.bytes() == 0 || is_lost || batch.is_moved {
        return Ok(());
    }
    let pieces = only.map(|message| {
        let length = message.done.length.into();
        (batch.local.piece(message.start, length), batch.remote.piece(message.start, length))
    });
    let (local, remote) = match &pieces {
        Some((local, remote)) => (local, remote),
        None => (&batch.local, &batch.remote),
    };
    let local = local.of_process(batch.local_proc.unwrap_or(requester.owner.proc));
    let remote = remote.of_process(responder.owner.proc);
    let cq = responder.qp.recv_cq.load(Acquire);
    if batch.is_sends() {
        return eager::stage_or_move(actor, cq, local, remote);
    }
    // Bytes that go straight to memory come behind those that were sent before.
    actor.drain_staged(cq);
    let (from, to) = if is_read { (remote, local) } else { (local, remote) };
    actor.copy(from, to)
}

/// Completes messages whose bytes have arrived, the responder's side first.
fn finish(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    responder: Option<Responder<'_>>,
    messages: &[Message],
    deferred: &mut Deferred,
) -> u32 {
    let sizes =
        messages.iter().map(|message| (message.done.opcode, message.done.length, message.is_lost));
    requester.count(responder.as_ref(), sizes);
    if actor.is_traced() {
        // A lost one has accessed nothing.
        let done = (requester.head()..).zip(messages).filter(|(_, message)| !message.is_lost);
        for (index, message) in done {
            requester.tell_target(actor, index, message.done.length);
        }
    }
    if let Some(mut responder) = responder {
        let received = messages.iter().filter_map(|message| message.received.as_ref());
        incoming::complete_received(actor, &mut responder, received, deferred);
    }
    let qpn = requester.qp.dest_qpn.load(Acquire);
    let done = messages.iter().map(|message| {
        let wr_id = message.received.map(|received| received.wr_id);
        (message.done, wr_id.map(|wr_id| MatchedReceive { qpn, wr_id }))
    });
    requester.complete(actor, done, None, deferred);
    messages.len() as u32
}

/// Memory of the responder is not there: what the requester gets for it, and the receive, if its
/// completion tells of it.
fn blame(
    responder: &Responder<'_>,
    received: Option<ReceiveCompletion>,
) -> (CheckError, Option<FailedReceive>) {
    let is_send = received.is_some_and(|received| fills_receive(received.opcode));
    let (memory, status, receive_status) = if is_send {
        (MemoryRole::Receive, wc_status::REMOTE_RECEIVE, wc_status::RECEIVE_MEMORY)
    } else {
        (MemoryRole::Remote, wc_status::REMOTE_MEMORY, wc_status::RECEIVE_ACCESS)
    };
    let cause = Cause::Unmapped { memory };
    let is_blamed = |received: &ReceiveCompletion| {
        is_send || responder.is_receive_blamed(received.opcode, received.length)
    };
    let blamed = received.filter(is_blamed).map(|received| FailedReceive {
        wr_id: received.wr_id,
        status: receive_status,
        cause: Some(cause),
    });
    (CheckError::new(status, cause), blamed)
}

/// Whether the bytes go into a receive's memory.
fn fills_receive(opcode: u32) -> bool {
    opcode != opcode::RDMA_WRITE_WITH_IMM
}
