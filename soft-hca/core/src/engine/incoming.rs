//! A message that goes into a receive work request, in one part or in several.

use std::sync::atomic::Ordering::Acquire;

use serde::{Deserialize, Serialize};
use soft_hca_verbs::cause::{Cause, MemoryRole};

use crate::engine::actor::Actor;
use crate::engine::check::CheckError;
use crate::engine::deferred::Deferred;
use crate::engine::receive::{Receive, ReceiveError};
use crate::engine::responder::{FailedReceive, ReceiveCompletion, Responder};
use crate::engine::segments::{Fault, Memory, SegmentList, length};
use crate::engine::{eager, wc_status, window};
use crate::uapi::verbs::opcode;

/// A message that has consumed a receive work request. It holds no lock: between two parts the
/// program may do what it likes, so each part is checked again. Its keeper drops it when
/// the queue pair leaves the states in which it answers, for then the receive is flushed. The daemon
/// takes the locks of each step in advance ([`lock_ahead`]): without them it would lose completions.
///
/// [`lock_ahead`]: super::responder::lock_ahead
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Incoming {
    receive: Receive,
    /// Bytes that are in its memory.
    scattered: u64,
}

/// Why a part of a message is not scattered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScatterError {
    /// It does not go into the receive work request, which completes with an error.
    Receive(ReceiveError),
    /// The part cannot be read.
    Source,
    /// A process has ended or does not answer.
    Unreachable,
}

impl Incoming {
    /// Consumes a receive work request for a message; `None` if there is none.
    pub(super) fn begin<'a>(
        responder: &Responder<'a>,
        actor: &Actor<'a>,
        deferred: &mut Deferred,
    ) -> Option<Self> {
        let mut receive = Receive::new();
        responder
            .consume(actor, 0, &mut receive, deferred)
            .then_some(Self { receive, scattered: 0 })
    }

    /// The program's name for the receive work request.
    pub(super) fn wr_id(&self) -> u64 {
        self.receive.wr_id
    }

    /// The next part goes behind the first `scattered` bytes, of which it may be a repetition.
    pub(super) fn go_to(&mut self, scattered: u64) {
        self.scattered = scattered;
    }

    /// Scatters the next part behind those before.
    pub(super) fn scatter(
        &mut self,
        responder: &Responder<'_>,
        actor: &Actor<'_>,
        part: Memory<'_>,
    ) -> Result<(), ScatterError> {
        let length = length(part.segments);
        let mut to = SegmentList::new();
        let owner = &responder.receive_owner(actor.arena);
        let listed = self.receive.scatter(actor.arena, owner, self.scattered, length, &mut to);
        listed.map_err(ScatterError::Receive)?;
        let cq = responder.qp.recv_cq.load(Acquire);
        let copied = eager::stage_or_move(actor, cq, part, to.of_process(owner.proc));
        copied.map_err(|fault| match fault {
            Fault::Source => ScatterError::Source,
            Fault::Destination => ScatterError::Receive(ReceiveError::Memory(
                CheckError::unmapped(MemoryRole::Receive),
            )),
            Fault::Unreachable => ScatterError::Unreachable,
        })?;
        self.scattered += length;
        Ok(())
    }

    /// The last part is scattered: completes the receive work request. All but its
    /// name and length comes from `completion`.
    pub(super) fn finish(
        self,
        responder: &mut Responder<'_>,
        actor: &Actor<'_>,
        completion: ReceiveCompletion,
        deferred: &mut Deferred,
    ) {
        let received = ReceiveCompletion {
            wr_id: self.receive.wr_id,
            length: self.scattered as u32,
            ..completion
        };
        complete_received(actor, responder, [&received], deferred);
    }

    /// The message does not arrive: the receive work request goes back to its owner.
    pub(super) fn give_back(
        self,
        responder: &Responder<'_>,
        actor: &Actor<'_>,
        deferred: &mut Deferred,
    ) {
        responder.give_back(actor, self.receive.wr_id, deferred);
    }

    /// The message does not go into the receive work request, for this reason. The queue pair
    /// fails, unless the message is a dropped one of an unreliable service.
    pub(super) fn fail(
        self,
        responder: &mut Responder<'_>,
        actor: &Actor<'_>,
        (error, cause): (&ReceiveError, Cause),
        deferred: &mut Deferred,
    ) {
        let wr_id = self.receive.wr_id;
        if matches!(error, ReceiveError::Small { .. }) && !responder.is_reliable() {
            responder.drop_message(actor, wr_id, cause, deferred);
        } else {
            let (status, cause) = (error.status(), Some(cause));
            responder.fail(actor, Some(&FailedReceive { wr_id, status, cause }), deferred);
        }
    }
}

/// Completes the receive work requests of messages that have arrived, and makes the keys
/// invalid that these name. Only the last one may name a key: if that is not valid, the queue
/// pair fails, of which the sender does not learn (IBTA 9.9.3.1, class J).
#[inline]
pub(super) fn complete_received<'m>(
    actor: &Actor<'_>,
    responder: &mut Responder<'_>,
    received: impl IntoIterator<Item = &'m ReceiveCompletion> + Clone,
    deferred: &mut Deferred,
) {
    let mut count = 0;
    let bad = received.clone().into_iter().find(|received| {
        let is_bad = received.opcode == opcode::SEND_WITH_INV
            && !window::can_invalidate(actor.arena, &responder.owner, received.imm);
        count += usize::from(!is_bad);
        is_bad
    });
    if count > 0 {
        let retiring = responder.retire(count as u32);
        for received in received.clone().into_iter().take(count) {
            if received.opcode == opcode::SEND_WITH_INV {
                window::invalidate(actor.arena, &responder.owner, received.imm);
            }
        }
        let received = received.into_iter().take(count);
        responder.complete_receives(actor, received, retiring, deferred);
    }
    if let Some(bad) = bad {
        let failed = FailedReceive {
            wr_id: bad.wr_id,
            status: wc_status::RECEIVE_INVALIDATE,
            cause: Some(Cause::Key { memory: MemoryRole::Remote, key: bad.imm }),
        };
        responder.fail(actor, Some(&failed), deferred);
    }
}
