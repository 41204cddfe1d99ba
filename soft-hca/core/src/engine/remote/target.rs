//! Receives and memory, as packets of another host use them.

use std::sync::atomic::Ordering::{Acquire, Release};

use serde::{Deserialize, Serialize};
use soft_hca_roce::transport::packet_sender::Busy;
use soft_hca_roce::transport::request::Remote;
use soft_hca_roce::transport::target::{Access, Atomic, Completion, Received, Refusal, Target};
use soft_hca_roce::wire::headers::Feth;
use soft_hca_roce::wire::opcode::SendEnd;
use soft_hca_verbs::cause::{Cause, MemoryRole};

use super::{read_only, writable};
use crate::arena::Tally;
use crate::engine::actor::Actor;
use crate::engine::check::CheckError;
use crate::engine::credit::{CreditWait, reserve_or_wait};
use crate::engine::deferred::Deferred;
use crate::engine::flush::can_fail;
use crate::engine::incoming::{Incoming, ScatterError, complete_received};
use crate::engine::receive::ReceiveError;
use crate::engine::request_error::RequestError;
use crate::engine::responder::{self, FailedReceive, ReceiveCompletion, Responder};
use crate::engine::segments::{Fault, Memory, Region, Segment, length};
use crate::engine::traffic::is_send;
use crate::engine::{atomic, effects, placement, wc_status, window};
use crate::uapi::rxe::{AtomicWr, FlushWr, RemoteWr};
use crate::uapi::verbs::{access, opcode, send_flag, status};

/// State of a connected queue pair between two packets of a message that it receives.
///
/// Another process that goes on with it finds the receive work request. The reason of a refusal is known
/// only to the process that has refused, which reports it at once, unless a queue is full.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Arriving {
    incoming: Option<Incoming>,
    #[serde(skip)]
    error: Option<ReceiveError>,
    /// Which check has refused it.
    #[serde(skip)]
    refused: Option<(Refusal, Cause)>,
    /// Its completion waits for a credit of the queue.
    #[serde(skip)]
    full: Option<CreditWait>,
}

/// The receives and the memory of a queue pair whose peer is on another host.
#[derive(Debug)]
pub struct RemoteTarget<'a, 'q> {
    /// The process that does it.
    pub actor: Actor<'a>,
    /// The queue pair.
    pub qpn: u32,
    /// Its type.
    pub kind: u32,
    /// The message under way.
    pub arriving: &'q mut Arriving,
}

impl<'a> RemoteTarget<'a, '_> {
    /// Does something with the responder, all of whose locks are held.
    fn with<T>(
        &mut self,
        work: impl FnOnce(
            &Actor<'a>,
            &mut Responder<'a>,
            &mut Arriving,
            &mut Deferred,
        ) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let actor = self.actor;
        let qp = actor.arena.qp(self.qpn).ok_or(Refusal::Busy)?;
        let mut deferred = Deferred::default();
        let done = {
            let _locks = responder::lock_ahead(&actor, qp).ok_or(Refusal::Busy)?;
            let responder = Responder::lock(&actor, qp, self.qpn, self.kind);
            let mut responder = responder.ok_or(Refusal::Busy)?;
            work(&actor, &mut responder, self.arriving, &mut deferred)
        };
        effects::carry_out(&actor, &mut deferred);
        done
    }
}

fn refusal_of(fault: Fault) -> Refusal {
    match fault {
        Fault::Unreachable => Refusal::Busy,
        _ => Refusal::Access,
    }
}

impl Arriving {
    /// The refusal by which the peer learns of a failed check.
    fn refuse(&mut self, error: &CheckError) -> Refusal {
        let refusal = match error.status() {
            wc_status::REMOTE_REFUSES => Refusal::InvalidRequest,
            _ => Refusal::Access,
        };
        self.refused = Some((refusal, error.cause()));
        refusal
    }

    fn reach(
        &mut self,
        actor: &Actor<'_>,
        responder: &Responder<'_>,
        right: u32,
        remote: Remote,
        length: u64,
    ) -> Result<(Segment, Region), Refusal> {
        let wr = RemoteWr { addr: remote.address, rkey: remote.rkey };
        let reached = responder.reach(actor.arena, right, wr, length);
        reached.map_err(|error| self.refuse(&error))
    }
}

impl Target for RemoteTarget<'_, '_> {
    fn consume_receive(&mut self) -> Result<(), Refusal> {
        self.with(|actor, responder, arriving, deferred| {
            let incoming = Incoming::begin(responder, actor, deferred).ok_or(Refusal::NotReady)?;
            if responder.is_shared() {
                responder.qp.consumed_wr_id.store(incoming.wr_id(), Release);
                responder.qp.consumed.store(1, Release);
            }
            arriving.incoming = Some(incoming);
            Ok(())
        })
    }

    fn scatter(&mut self, offset: u32, parts: &[&[u8]]) -> Result<(), Refusal> {
        let ours = read_only(parts);
        self.with(|actor, responder, arriving, _| {
            let incoming = arriving.incoming.as_mut().ok_or(Refusal::Busy)?;
            incoming.go_to(offset.into());
            let ours = Memory::unregistered(actor.me, &ours);
            incoming.scatter(responder, actor, ours).map_err(|error| match error {
                ScatterError::Receive(error) => {
                    let refusal = match error {
                        ReceiveError::Small { .. } => Refusal::ReceiveTooSmall,
                        ReceiveError::Malformed | ReceiveError::Memory(_) => Refusal::Receive,
                    };
                    arriving.refused = Some((refusal, error.cause(0)));
                    arriving.error = Some(error);
                    refusal
                }
                ScatterError::Source | ScatterError::Unreachable => Refusal::Busy,
            })
        })
    }

    fn release_receive(&mut self) -> bool {
        let released = self.with(|actor, responder, arriving, deferred| {
            if !responder.is_shared() {
                return Ok(false);
            }
            if let Some(incoming) = arriving.incoming.take() {
                responder.qp.consumed.store(0, Release);
                match arriving.error.take() {
                    Some(error) => {
                        incoming.fail(responder, actor, (&error, error.cause(0)), deferred);
                    }
                    None => incoming.give_back(responder, actor, deferred),
                }
            }
            Ok(true)
        });
        released == Ok(true)
    }

    fn complete(&mut self, completion: Completion) -> Result<(), Refusal> {
        self.with(|actor, responder, arriving, deferred| {
            let incoming = arriving.incoming.as_ref().ok_or(Refusal::Busy)?;
            let (opcode, imm) = match completion.received {
                Received::Send(SendEnd::Plain) => (opcode::SEND, 0),
                Received::Send(SendEnd::Immediate(immediate)) => {
                    (opcode::SEND_WITH_IMM, u32::from_ne_bytes(immediate))
                }
                Received::Send(SendEnd::Invalidate(key)) => {
                    if !window::can_invalidate(actor.arena, &responder.owner, key) {
                        let cause = Cause::Key { memory: MemoryRole::Remote, key };
                        arriving.refused = Some((Refusal::Invalidate, cause));
                        return Err(Refusal::Invalidate);
                    }
                    (opcode::SEND_WITH_INV, key)
                }
                Received::Write(immediate) => {
                    (opcode::RDMA_WRITE_WITH_IMM, u32::from_ne_bytes(immediate))
                }
            };
            let cq = responder.qp.recv_cq.load(Acquire);
            let credit = reserve_or_wait(actor, cq, &mut arriving.full);
            let _credit = credit.ok_or(Refusal::Busy)?;
            let received = ReceiveCompletion {
                wr_id: incoming.wr_id(),
                opcode,
                flags: if completion.solicited { send_flag::SOLICITED } else { 0 },
                imm,
                length: completion.length,
                ..ReceiveCompletion::default()
            };
            arriving.incoming = None;
            arriving.refused = None;
            responder.qp.consumed.store(0, Release);
            let sends = is_send(opcode).into();
            responder.qp.received.add(&Tally { sends, ..Tally::default() });
            complete_received(actor, responder, [&received], deferred);
            Ok(())
        })
    }

    fn check(&mut self, access: Access, remote: Remote, length: u32) -> Result<(), Refusal> {
        let right = match access {
            Access::Read => access::REMOTE_READ,
            Access::Write => access::REMOTE_WRITE,
        };
        self.with(|actor, responder, arriving, _| {
            arriving.reach(actor, responder, right, remote, length.into()).map(drop)
        })
    }

    fn read(&mut self, from: Remote, out: &mut [&mut [u8]]) -> Result<(), Refusal> {
        let ours = writable(out);
        self.with(|actor, responder, arriving, _| {
            let right = access::REMOTE_READ;
            let (segment, region) = arriving.reach(actor, responder, right, from, length(&ours))?;
            let (segments, regions) = ([segment], [region]);
            let memory =
                Memory { proc: responder.owner.proc, segments: &segments, regions: &regions };
            let ours = Memory::unregistered(actor.me, &ours);
            actor.copy(memory, ours).map_err(refusal_of)
        })
    }

    fn write(&mut self, remote: Remote, parts: &[&[u8]]) -> Result<(), Refusal> {
        let ours = read_only(parts);
        self.with(|actor, responder, arriving, _| {
            let right = access::REMOTE_WRITE;
            let (segment, region) =
                arriving.reach(actor, responder, right, remote, length(&ours))?;
            let (segments, regions) = ([segment], [region]);
            let memory =
                Memory { proc: responder.owner.proc, segments: &segments, regions: &regions };
            let ours = Memory::unregistered(actor.me, &ours);
            actor.copy(ours, memory).map_err(refusal_of)
        })
    }

    fn atomic(&mut self, remote: Remote, atomic: Atomic) -> Result<u64, Refusal> {
        let to = RemoteWr { addr: remote.address, rkey: remote.rkey };
        let (kind, compare_add, swap) = match atomic {
            Atomic::CompareSwap { compare, swap } => (opcode::ATOMIC_CMP_AND_SWP, compare, swap),
            Atomic::FetchAdd(add) => (opcode::ATOMIC_FETCH_AND_ADD, add, 0),
            Atomic::Write(bytes) => (opcode::ATOMIC_WRITE, 0, u64::from_ne_bytes(bytes)),
        };
        let operation = AtomicWr { remote: to, compare_add, swap };
        self.with(|actor, responder, arriving, _| {
            atomic::operate(actor, responder, kind, operation, |_| {}).map_err(
                |error| match error {
                    RequestError::Failed(error) => arriving.refuse(&error),
                    _ => Refusal::Busy,
                },
            )
        })
    }

    fn flush(&mut self, remote: Remote, length: u32, feth: Feth) -> Result<(), Refusal> {
        let remote = RemoteWr { addr: remote.address, rkey: remote.rkey };
        let Feth { placement, selectivity } = feth;
        let flush = FlushWr { remote, length, placement, selectivity };
        self.with(|actor, responder, arriving, _| {
            let served = placement::serve(actor.arena, responder, flush);
            served.map_err(|error| arriving.refuse(&error))
        })
    }

    fn fail(&mut self, reason: Refusal) -> Result<(), Busy> {
        let failed = self.with(|actor, responder, arriving, deferred| {
            let status = match reason {
                Refusal::Receive | Refusal::ReceiveTooSmall => {
                    let error = arriving.error.take();
                    error.map_or(wc_status::RECEIVE_TOO_SMALL, |error| error.status())
                }
                Refusal::InvalidRequest => wc_status::RECEIVE_BROKEN_OFF,
                Refusal::Access => wc_status::RECEIVE_ACCESS,
                Refusal::Invalidate => wc_status::RECEIVE_INVALIDATE,
                Refusal::Busy | Refusal::NotReady | Refusal::Overflow => status::WR_FLUSH_ERR,
            };
            let refused = arriving.refused.take().filter(|(refusal, _)| *refusal == reason);
            let cause = refused.map(|(_, cause)| cause);
            let receive = arriving.incoming.take().map(|incoming| incoming.wr_id());
            let receive = receive.map(|wr_id| FailedReceive { wr_id, status, cause });
            responder.qp.consumed.store(0, Release);
            match (reason, &receive) {
                (Refusal::InvalidRequest, None) => {
                    responder.refuse(actor, wc_status::REMOTE_REFUSES, deferred);
                }
                (Refusal::Access, None) => {
                    responder.refuse(actor, wc_status::REMOTE_MEMORY, deferred);
                }
                (_, receive) => responder.fail(actor, receive.as_ref(), deferred),
            }
            Ok(())
        });
        let is_there =
            self.actor.arena.qp(self.qpn).is_some_and(|qp| can_fail(qp.state.load(Acquire)));
        // It waits for a lock, unless the queue pair is gone.
        if failed.is_err() && is_there { Err(Busy) } else { Ok(()) }
    }
}
