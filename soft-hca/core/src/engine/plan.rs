//! Planning a batch: each message is checked on both sides and its memory is listed.

use std::sync::atomic::Ordering::Acquire;

use arrayvec::ArrayVec;

use crate::engine::actor::Actor;
use crate::engine::check::CheckError;
use crate::engine::credit::Credits;
use crate::engine::deferred::Deferred;
use crate::engine::memory::SCATTER;
use crate::engine::receive::{Receive, ReceiveError};
use crate::engine::request::{PayloadLocation, Requester, SendCompletion};
use crate::engine::request_error::RequestError;
use crate::engine::responder::{FailedReceive, MAX_MESSAGES, ReceiveCompletion, Responder};
use crate::engine::segments::SegmentList;
use crate::engine::{credit, wc_status};
use crate::uapi::rxe::{MAX_SGE, SendWqe};
use crate::uapi::verbs::{WrOpcode, access, opcode, qp_type};

/// A batch is not made longer once it has so many bytes: the first completion waits for all.
const ENOUGH_BYTES: u64 = 32 << 10;

/// A message that has been planned.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Message {
    pub done: SendCompletion,
    /// The responder's completion, if there is one.
    pub received: Option<ReceiveCompletion>,
    /// Offset of its bytes in the lists.
    pub start: u64,
    /// Not to be delivered, nor reported: UC.
    pub is_lost: bool,
}

/// Messages that are moved together.
pub(super) struct Batch<'a> {
    /// Messages that it may have.
    limit: u32,
    pub messages: ArrayVec<Message, MAX_MESSAGES>,
    /// Receive work requests that the messages consume.
    pub receives: u32,
    pub local: SegmentList,
    pub remote: SegmentList,
    /// Process whose memory `local` is, once there is a message with bytes.
    pub local_proc: Option<usize>,
    /// The bytes are in their places already.
    pub is_moved: bool,
    /// Credits for completions of the requester and of the responder, once they need them.
    send_credits: Option<Credits<'a>>,
    recv_credits: Option<Credits<'a>>,
}

/// Why a message is not in the batch.
pub(super) enum NotPlanned {
    /// It has to wait for the batch to be done.
    Yet,
    /// The requester's side stops.
    Requester(RequestError),
    /// The responder refuses. Its queue pair fails, and the receive work request that the message
    /// has consumed.
    Responder(CheckError, Option<FailedReceive>),
}

impl NotPlanned {
    /// Whether a requester of UC does not learn of it: the message is lost. A receive whose memory
    /// may not be used makes the responder fail all the same.
    fn is_unnoticed(&self) -> bool {
        matches!(
            self,
            Self::Responder(_, None)
                | Self::Requester(RequestError::ReceiverNotReady(_) | RequestError::NoResponse)
        )
    }
}

impl From<RequestError> for NotPlanned {
    fn from(stop: RequestError) -> Self {
        Self::Requester(stop)
    }
}

impl From<CheckError> for NotPlanned {
    fn from(error: CheckError) -> Self {
        Self::Requester(error.into())
    }
}

/// Whether a request takes a receive of the peer.
pub(super) fn consumes_receive(opcode: u32) -> bool {
    !matches!(opcode, opcode::RDMA_WRITE | opcode::RDMA_READ)
}

/// Rights that the responder's memory has to give; 0 if the request names none.
fn right(opcode: u32) -> u32 {
    match opcode {
        opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM => access::REMOTE_WRITE,
        opcode::RDMA_READ => access::REMOTE_READ,
        _ => 0,
    }
}

impl<'a> Batch<'a> {
    pub(super) fn new(limit: u32) -> Self {
        Self {
            limit: limit.min(MAX_MESSAGES as u32),
            messages: ArrayVec::new_const(),
            receives: 0,
            local: SegmentList::new(),
            remote: SegmentList::new(),
            local_proc: None,
            is_moved: false,
            send_credits: None,
            recv_credits: None,
        }
    }

    /// Whether another message of whatever size is sure to fit.
    pub(super) fn has_capacity(&self) -> bool {
        (self.messages.len() as u32) < self.limit
            && self.local.bytes() < ENOUGH_BYTES
            && self.local.remaining() >= MAX_SGE
            && self.remote.remaining() >= MAX_SGE
    }

    /// Whether all payloads are for receive work requests.
    pub(super) fn is_sends(&self) -> bool {
        let is_send = |message: &Message| {
            message.received.is_some_and(|received| WrOpcode(received.opcode).is_send())
        };
        self.messages.iter().all(is_send)
    }

    /// Adds a message, for which there is capacity.
    fn push(&mut self, message: Message) {
        self.receives += u32::from(message.received.is_some());
        self.messages.push(message);
    }
}

/// Uses one of a batch's credits for a completion queue, which are reserved when the first is
/// needed.
fn use_credit<'a>(
    credits: &mut Option<Credits<'a>>,
    actor: &Actor<'a>,
    (cq, requested): (u32, u32),
) -> Result<(), RequestError> {
    let credits = credits.get_or_insert_with(|| credit::reserve(actor, cq, requested));
    if credits.consume() { Ok(()) } else { Err(RequestError::CqFull(cq)) }
}

/// Checks a message on both sides and adds it to the batch.
pub(super) fn plan<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    responder: Option<&Responder<'a>>,
    wqe: &SendWqe<'a>,
    batch: &mut Batch<'a>,
    deferred: &mut Deferred,
) -> Result<(), NotPlanned> {
    match wqe.opcode {
        opcode::SEND | opcode::SEND_WITH_IMM | opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM => {
        }
        opcode::SEND_WITH_INV | opcode::RDMA_READ if requester.kind == qp_type::RC => {}
        _ => return Err(NotPlanned::Yet),
    }
    if requester.is_signaled(wqe.flags) {
        let of_cq = (requester.send_cq, batch.limit);
        use_credit(&mut batch.send_credits, actor, of_cq)?;
    }
    let start = batch.local.bytes();
    let (location, length) = if wqe.opcode == opcode::RDMA_READ {
        requester.check_read_depth()?;
        (PayloadLocation::Memory, requester.gather(actor, wqe, SCATTER, &mut batch.local)?)
    } else {
        requester.payload(actor, wqe, &mut batch.local)?
    };
    let local_proc = requester.proc_of(location, actor.me);
    if length > 0 && batch.local_proc.is_some_and(|proc| proc != local_proc) {
        return Err(NotPlanned::Yet);
    }
    let received = match responder {
        Some(responder) => plan_response(actor, responder, wqe, length, batch, deferred),
        None => Err(RequestError::NoResponse.into()),
    };
    let done = SendCompletion::of(wqe, length);
    match received {
        Ok(received) => {
            if length > 0 {
                batch.local_proc = Some(local_proc);
            }
            batch.push(Message { done, received, start, is_lost: false });
        }
        Err(reason) if requester.kind == qp_type::UC && reason.is_unnoticed() => {
            if !batch.messages.is_empty() {
                return Err(NotPlanned::Yet);
            }
            // Its bytes stay where they are; those of the next message are the first.
            batch.local = SegmentList::new();
            batch.remote = SegmentList::new();
            batch.push(Message { done, received: None, start, is_lost: true });
        }
        Err(reason) => return Err(reason),
    }
    Ok(())
}

/// Checks a message on the responder's side, and lists where its bytes go to or, for a read,
/// come from.
fn plan_response<'a>(
    actor: &Actor<'a>,
    responder: &Responder<'a>,
    wqe: &SendWqe<'a>,
    length: u32,
    batch: &mut Batch<'a>,
    deferred: &mut Deferred,
) -> Result<Option<ReceiveCompletion>, NotPlanned> {
    let right = right(wqe.opcode);
    if right != 0 {
        match responder.reach(actor.arena, right, wqe.remote(), length.into()) {
            Ok((segment, region)) => batch.remote.push(segment, region),
            Err(error) => {
                let name = (wqe.opcode, length);
                return Err(refuse_memory(actor, responder, name, error, batch, deferred));
            }
        }
    }
    if !consumes_receive(wqe.opcode) {
        return Ok(None);
    }
    let mut receive = Receive::new();
    consume_receive(actor, responder, &mut receive, batch, deferred)?;
    // The SGEs of a receive work request that a write consumes are ignored.
    if right == 0 {
        let (owner, to) = (&responder.receive_owner(actor.arena), &mut batch.remote);
        let listed = receive.scatter(actor.arena, owner, 0, length.into(), to);
        listed
            .map_err(|error| refuse_receive(actor, responder, receive.wr_id, &error, deferred))?;
    }
    Ok(Some(ReceiveCompletion {
        wr_id: receive.wr_id,
        opcode: wqe.opcode,
        flags: wqe.flags,
        imm: wqe.imm,
        length,
        src_qp: 0,
        network_type: 0,
        slid: 0,
        dlid_path_bits: 0,
    }))
}

/// Finds the receive work request for the next message, and a credit for its completion.
fn consume_receive<'a>(
    actor: &Actor<'a>,
    responder: &Responder<'a>,
    receive: &mut Receive,
    batch: &mut Batch<'a>,
    deferred: &mut Deferred,
) -> Result<(), RequestError> {
    let of_cq = (responder.qp.recv_cq.load(Acquire), batch.limit);
    use_credit(&mut batch.recv_credits, actor, of_cq)?;
    if responder.consume(actor, batch.receives, receive, deferred) {
        return Ok(());
    }
    Err(RequestError::ReceiverNotReady(responder.qp.min_rnr_timer.load(Acquire)))
}

/// The memory that a request names may not be used. A write with immediate data may have its
/// receive work request complete with an error, too.
#[cold]
fn refuse_memory<'a>(
    actor: &Actor<'a>,
    responder: &Responder<'a>,
    (opcode, length): (u32, u32),
    error: CheckError,
    batch: &mut Batch<'a>,
    deferred: &mut Deferred,
) -> NotPlanned {
    if error.status() != wc_status::REMOTE_MEMORY || !responder.is_receive_blamed(opcode, length) {
        return NotPlanned::Responder(error, None);
    }
    let mut receive = Receive::new();
    if let Err(stop) = consume_receive(actor, responder, &mut receive, batch, deferred) {
        return stop.into();
    }
    let failed = FailedReceive {
        wr_id: receive.wr_id,
        status: wc_status::RECEIVE_ACCESS,
        cause: Some(error.cause()),
    };
    NotPlanned::Responder(error, Some(failed))
}

/// The message does not go into the receive work request.
#[cold]
fn refuse_receive(
    actor: &Actor<'_>,
    responder: &Responder<'_>,
    wr_id: u64,
    error: &ReceiveError,
    deferred: &mut Deferred,
) -> NotPlanned {
    let cause = error.cause(0);
    let for_requester = CheckError::new(error.requester_status(), cause);
    if matches!(error, ReceiveError::Small { .. }) && !responder.is_reliable() {
        responder.drop_message(actor, wr_id, cause, deferred);
        return NotPlanned::Responder(for_requester, None);
    }
    let failed = FailedReceive { wr_id, status: error.status(), cause: Some(cause) };
    NotPlanned::Responder(for_requester, Some(failed))
}
