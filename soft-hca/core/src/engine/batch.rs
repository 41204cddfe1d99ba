//! Sends, RDMA writes and RDMA reads of connected queue pairs: as many as go together are planned
//! first, then moved by one system call, then completed.
//!
//! A message gets its completions only after the bytes of the whole batch have moved. If they
//! cannot be moved, they are moved once more message by message, to know which one is to blame;
//! those before it count, those behind it were never begun.

use std::sync::atomic::Ordering::Acquire;

use arrayvec::ArrayVec;

use crate::engine::cause::{Cause, Place};
use crate::engine::deferred::Deferred;
use crate::engine::memory::SCATTER;
use crate::engine::receive::{Receive, ReceiveError};
use crate::engine::request::{Payload, RequestError, Requester, SendCompletion};
use crate::engine::responder::{MAX_MESSAGES, ReceiveCompletion, Responder};
use crate::engine::room::Claim;
use crate::engine::segments::{Fault, SegmentList};
use crate::engine::traced::MatchedReceive;
use crate::engine::{Actor, wc_status};
use crate::uapi::rxe::{MAX_SGE, SendWqe};
use crate::uapi::verbs::{access, opcode, qp_type};

/// A batch is not made longer once it has so many bytes: the first completion waits for all.
const ENOUGH_BYTES: u64 = 32 << 10;

/// A message that has been planned.
#[derive(Clone, Copy, Debug, Default)]
struct Message {
    done: SendCompletion,
    /// What the responder's completion tells, if there is one.
    received: Option<ReceiveCompletion>,
    /// Where its bytes begin in the lists.
    start: u64,
    /// Not to be delivered, nor reported: UC.
    is_lost: bool,
}

struct Batch<'a> {
    /// Messages that it may have.
    limit: u32,
    messages: ArrayVec<Message, MAX_MESSAGES>,
    /// Receives that the messages use.
    receives: u32,
    local: SegmentList,
    remote: SegmentList,
    /// Process whose memory `local` is, once there is a message with bytes.
    local_proc: Option<usize>,
    /// Room for completions of the requester and of the responder, once they need it.
    send_room: Option<Claim<'a>>,
    recv_room: Option<Claim<'a>>,
}

/// Why a message is not in the batch.
enum NotPlanned {
    /// It has to wait for the batch to be done.
    Yet,
    /// The requester's side stops.
    Requester(RequestError),
    /// The responder refuses: our status; its queue pair fails, a receive with a status, too.
    Responder(u32, Option<(u64, u32)>),
}

impl From<RequestError> for NotPlanned {
    fn from(stop: RequestError) -> Self {
        Self::Requester(stop)
    }
}

fn takes_receive(opcode: u32) -> bool {
    !matches!(opcode, opcode::RDMA_WRITE | opcode::RDMA_READ)
}

impl Batch<'_> {
    fn new(limit: u32) -> Self {
        Self {
            limit: limit.min(MAX_MESSAGES as u32),
            messages: ArrayVec::new_const(),
            receives: 0,
            local: SegmentList::new(),
            remote: SegmentList::new(),
            local_proc: None,
            send_room: None,
            recv_room: None,
        }
    }

    /// Whether another message of whatever size is sure to fit.
    fn has_room(&self) -> bool {
        (self.messages.len() as u32) < self.limit
            && self.local.bytes() < ENOUGH_BYTES
            && self.local.room() >= MAX_SGE
            && self.remote.room() >= MAX_SGE
    }
}

impl<'a> Actor<'a> {
    /// Executes messages from the head of the queue on; gives how many.
    pub(super) fn transfer(
        &self,
        requester: &Requester<'a>,
        limit: u32,
        deferred: &mut Deferred,
    ) -> Result<u32, RequestError> {
        let mut responder = requester.responder(self);
        let is_rc = requester.kind == qp_type::RC;
        if is_rc && responder.is_none() {
            return Err(RequestError::NoResponse);
        }
        let head = requester.head();
        let is_read = requester.wqe(head).opcode == opcode::RDMA_READ;
        // Receives that cannot be put back are taken one at a time. So are requests that lead from
        // a process into itself: one may pass on what the one before it has brought, and bytes
        // that are moved together may all be read before any is written.
        let is_single = responder.as_ref().is_some_and(|responder| {
            responder.is_shared() || responder.owner.proc == requester.owner.proc
        });
        let mut batch = Batch::new(if is_single { 1 } else { limit });
        while batch.has_room() {
            let wqe = requester.wqe(head.wrapping_add(batch.messages.len() as u32));
            let marks = (batch.local.mark(), batch.remote.mark());
            let goes_with = (wqe.opcode == opcode::RDMA_READ) == is_read;
            let planned = if goes_with && !requester.is_fenced(&wqe) {
                self.plan(requester, responder.as_ref(), &wqe, &mut batch, deferred)
            } else {
                Err(NotPlanned::Yet)
            };
            let Err(reason) = planned else {
                // What it invalidates must not be used by the next one.
                if wqe.opcode == opcode::SEND_WITH_INV {
                    break;
                }
                continue;
            };
            batch.local.restore(marks.0);
            batch.remote.restore(marks.1);
            match reason {
                _ if !batch.messages.is_empty() => break,
                NotPlanned::Yet => return Err(RequestError::Failed(wc_status::MALFORMED)),
                NotPlanned::Requester(stop) => return Err(stop),
                NotPlanned::Responder(status, receive) => {
                    match (&mut responder, receive) {
                        (Some(responder), None) => responder.refuse(self, status, deferred),
                        (Some(responder), receive) => responder.fail(self, receive, deferred),
                        (None, _) => {}
                    }
                    if is_rc {
                        return Err(RequestError::Failed(status));
                    }
                    let done = SendCompletion::of(&wqe, 0);
                    drop(responder);
                    requester.complete(self, [(done, None)], deferred);
                    return Ok(1);
                }
            }
        }
        self.move_batch(requester, responder, &batch, is_read, deferred)
    }

    /// Checks a message on both sides and lists its memory.
    fn plan(
        &self,
        requester: &Requester<'a>,
        responder: Option<&Responder<'a>>,
        wqe: &SendWqe<'a>,
        batch: &mut Batch<'a>,
        deferred: &mut Deferred,
    ) -> Result<(), NotPlanned> {
        let is_read = wqe.opcode == opcode::RDMA_READ;
        match wqe.opcode {
            opcode::SEND
            | opcode::SEND_WITH_IMM
            | opcode::RDMA_WRITE
            | opcode::RDMA_WRITE_WITH_IMM => {}
            opcode::SEND_WITH_INV | opcode::RDMA_READ if requester.kind == qp_type::RC => {}
            _ => return Err(NotPlanned::Yet),
        }
        if requester.is_signaled(wqe.flags) {
            let wanted = batch.limit;
            let room = &mut batch.send_room;
            if !room.get_or_insert_with(|| self.claim_room(requester.send_cq, wanted)).take() {
                return Err(RequestError::CqFull(requester.send_cq).into());
            }
        }
        let start = batch.local.bytes();
        let (payload, length) = if is_read {
            requester.check_read_depth()?;
            (Payload::Memory, requester.gather(self, wqe, SCATTER, &mut batch.local)?)
        } else {
            requester.payload(self, wqe, &mut batch.local)?
        };
        let local_proc = requester.proc_of(payload, self.me);
        if length > 0 && batch.local_proc.is_some_and(|proc| proc != local_proc) {
            return Err(NotPlanned::Yet);
        }
        let mut message = Message {
            done: SendCompletion::of(wqe, length),
            received: None,
            start,
            is_lost: false,
        };
        let place = match responder {
            Some(responder) => {
                self.place(responder, wqe, length, batch, deferred).map(|received| {
                    message.received = received;
                })
            }
            None => Err(NotPlanned::Requester(RequestError::NoResponse)),
        };
        match place {
            Ok(()) => {}
            // Nobody tells a requester of UC that its message was lost. A receive whose memory may
            // not be used makes the responder fail all the same.
            Err(
                NotPlanned::Responder(_, None)
                | NotPlanned::Requester(RequestError::ReceiverNotReady(_) | RequestError::NoResponse),
            ) if requester.kind == qp_type::UC => {
                message.is_lost = true;
            }
            Err(reason) => return Err(reason),
        }
        if message.is_lost {
            if !batch.messages.is_empty() {
                return Err(NotPlanned::Yet);
            }
            // Its bytes stay where they are; those of the next message are the first.
            batch.local = SegmentList::new();
            batch.remote = SegmentList::new();
        } else if length > 0 {
            batch.local_proc = Some(local_proc);
        }
        batch.receives += u32::from(message.received.is_some());
        // There is room: the caller has seen to it.
        batch.messages.push(message);
        Ok(())
    }

    /// Lists where a message goes to or, for a read, comes from.
    fn place(
        &self,
        responder: &Responder<'a>,
        wqe: &SendWqe<'a>,
        length: u32,
        batch: &mut Batch<'a>,
        deferred: &mut Deferred,
    ) -> Result<Option<ReceiveCompletion>, NotPlanned> {
        let refused = |status| NotPlanned::Responder(status, None);
        let right = match wqe.opcode {
            opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM => access::REMOTE_WRITE,
            opcode::RDMA_READ => access::REMOTE_READ,
            _ => 0,
        };
        let mut is_blamed = false;
        if right != 0 {
            let remote = wqe.remote();
            match responder.reach(self.arena, right, remote, length.into()) {
                Ok((segment, region)) => batch.remote.push(segment, region),
                Err(status) => {
                    let why = responder.why_not(self.arena, right, remote, length.into());
                    deferred.cause = Some(why);
                    is_blamed = status == wc_status::REMOTE_MEMORY
                        && responder.is_receive_blamed(wqe.opcode, length);
                    if !is_blamed {
                        return Err(refused(status));
                    }
                }
            }
        }
        if !takes_receive(wqe.opcode) {
            return Ok(None);
        }
        let (cq, wanted) = (responder.qp.recv_cq.load(Acquire), batch.limit);
        if !batch.recv_room.get_or_insert_with(|| self.claim_room(cq, wanted)).take() {
            return Err(NotPlanned::Requester(RequestError::CqFull(cq)));
        }
        let timer = responder.qp.min_rnr_timer.load(Acquire);
        let mut receive = Receive::new();
        if !responder.take(self, batch.receives, &mut receive, deferred) {
            return Err(NotPlanned::Requester(RequestError::ReceiverNotReady(timer)));
        }
        if is_blamed {
            let failed = (receive.wr_id, wc_status::RECEIVE_ACCESS);
            return Err(NotPlanned::Responder(wc_status::REMOTE_MEMORY, Some(failed)));
        }
        // The elements of a receive that a write takes are ignored.
        if right == 0 {
            let (owner, to) = (&responder.receive_owner(self.arena), &mut batch.remote);
            receive.scatter(self.arena, owner, 0, length.into(), to).map_err(|error| {
                deferred.cause = Some(receive.why_not(self.arena, owner, error, length.into()));
                if error == ReceiveError::Small && !responder.is_reliable() {
                    responder.drop_message(self, receive.wr_id, deferred);
                    return refused(error.requester_status());
                }
                let failed = (receive.wr_id, error.status());
                NotPlanned::Responder(error.requester_status(), Some(failed))
            })?;
        }
        Ok(Some(ReceiveCompletion {
            wr_id: receive.wr_id,
            opcode: wqe.opcode,
            flags: wqe.flags,
            imm: wqe.imm,
            length,
            src_qp: 0,
            network_type: 0,
        }))
    }

    /// Moves the planned messages and completes them.
    fn move_batch(
        &self,
        requester: &Requester<'a>,
        responder: Option<Responder<'a>>,
        batch: &Batch<'_>,
        is_read: bool,
        deferred: &mut Deferred,
    ) -> Result<u32, RequestError> {
        let Some(mut responder) = responder else {
            return Ok(self.finish(requester, None, &batch.messages, deferred));
        };
        if batch.receives > 0 {
            // Comes while the bytes move.
            responder.prefetch_receive_completion(self);
        }
        let mut moved = self.move_bytes(requester, &responder, batch, None, is_read);
        let mut good = 0;
        // Who is not reached is not reached by any of them, and it may have taken seconds to find
        // that out.
        if moved.is_err_and(|fault| fault != Fault::Unreachable) {
            for message in &batch.messages {
                moved = self.move_bytes(requester, &responder, batch, Some(message), is_read);
                if moved.is_err() {
                    break;
                }
                good += 1;
            }
        }
        let Err(fault) = moved else {
            return Ok(self.finish(requester, Some(responder), &batch.messages, deferred));
        };
        if good > 0 {
            // What is wrong shows again when the message is at the head.
            let messages = &batch.messages[..good];
            return Ok(self.finish(requester, Some(responder), messages, deferred));
        }
        let received = batch.messages.first().and_then(|message| message.received);
        let is_send = received.is_some_and(|received| takes_receive_memory(received.opcode));
        let place = match (fault, is_read) {
            (Fault::Source, false) | (Fault::Destination, true) => Place::Local,
            _ if is_send => Place::Receive,
            _ => Place::Remote,
        };
        deferred.cause = (fault != Fault::Unreachable).then_some(Cause::Unmapped { place });
        let (stop, receive) = match (fault, is_read) {
            (Fault::Unreachable, _) => (RequestError::NoResponse, None),
            (Fault::Source, false) | (Fault::Destination, true) => {
                (RequestError::Failed(wc_status::LOCAL_MEMORY), None)
            }
            _ if is_send => {
                let error = ReceiveError::Memory;
                (
                    RequestError::Failed(error.requester_status()),
                    received.map(|received| (received.wr_id, error.status())),
                )
            }
            _ => {
                let blamed = received.filter(|received| {
                    responder.is_receive_blamed(received.opcode, received.length)
                });
                (
                    RequestError::Failed(wc_status::REMOTE_MEMORY),
                    blamed.map(|received| (received.wr_id, wc_status::RECEIVE_ACCESS)),
                )
            }
        };
        let is_rc = requester.kind == qp_type::RC;
        let is_local = stop == RequestError::Failed(wc_status::LOCAL_MEMORY);
        if let (None, Some(received)) = (receive, received) {
            responder.give_back(self, received.wr_id, deferred);
        }
        match (stop, receive) {
            (_, Some(_)) => responder.fail(self, receive, deferred),
            (RequestError::Failed(status), None) if is_rc && !is_local => {
                responder.refuse(self, status, deferred);
            }
            _ => {}
        }
        if is_rc || is_local {
            return Err(stop);
        }
        drop(responder);
        let done = batch.messages.iter().take(1).map(|message| (message.done, None));
        let count = done.len() as u32;
        requester.complete(self, done, deferred);
        Ok(count)
    }

    /// Moves the bytes of all messages or of one.
    fn move_bytes(
        &self,
        requester: &Requester<'_>,
        responder: &Responder<'_>,
        batch: &Batch<'_>,
        only: Option<&Message>,
        is_read: bool,
    ) -> Result<(), Fault> {
        if batch.local.bytes() == 0 || only.is_some_and(|message| message.is_lost) {
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
        let (from, to) = if is_read { (remote, local) } else { (local, remote) };
        self.link.copy(self.arena, self.me, from, to)
    }

    /// Completes messages whose bytes have arrived, the responder's side first.
    fn finish(
        &self,
        requester: &Requester<'a>,
        responder: Option<Responder<'a>>,
        messages: &[Message],
        deferred: &mut Deferred,
    ) -> u32 {
        for message in messages {
            requester.count_packets(responder.as_ref(), message.done.length);
        }
        if let Some(mut responder) = responder {
            let received = messages.iter().filter_map(|message| message.received.as_ref());
            self.complete_received(&mut responder, received, deferred);
        }
        let qpn = requester.qp.dest_qpn.load(Acquire);
        let done = messages.iter().map(|message| {
            let wr_id = message.received.map(|received| received.wr_id);
            (message.done, wr_id.map(|wr_id| MatchedReceive { qpn, wr_id }))
        });
        requester.complete(self, done, deferred);
        messages.len() as u32
    }
}

/// Whether the bytes go into a receive's memory.
fn takes_receive_memory(opcode: u32) -> bool {
    opcode != opcode::RDMA_WRITE_WITH_IMM
}
