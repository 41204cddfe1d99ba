//! A queue pair whose peer is on another host, as the link sees it: what it is to send, where its
//! memory is, its completions. Each call takes the locks that it needs and waits for none.

use std::sync::atomic::Ordering::{Acquire, Release};

use arrayvec::ArrayVec;
use soft_hca_roce::transport::request::{
    Failure, Opcode, Remote, SendQueue, Status, WorkRequest as RemoteRequest,
};
use soft_hca_roce::transport::target::{Access, Atomic, Completion, Received, Refusal, Target};
use soft_hca_roce::wire::opcode::SendEnd;

use crate::arena::Qp;
use crate::engine::cursor::retire;
use crate::engine::datagram::Datagram;
use crate::engine::deferred::Deferred;
use crate::engine::flush::{can_fail, set_error};
use crate::engine::incoming::{Incoming, PlaceError};
use crate::engine::memory::SCATTER;
use crate::engine::receive::ReceiveError;
use crate::engine::request::{Payload, RequestError, Requester};
use crate::engine::responder::{ReceiveCompletion, Responder};
use crate::engine::room::Full;
use crate::engine::segments::{Fault, MAX_SEGMENTS, Memory, Region, Segment, SegmentList, length};
use crate::engine::{Actor, process_memory, wc_status};
use crate::uapi::rxe::{AtomicWr, Cqe, RemoteWr, SendWqe};
use crate::uapi::verbs::{access, network_type, opcode, qp_type, send_flag, state, status};

/// A datagram for another host.
#[derive(Debug)]
pub(crate) struct RemoteDatagram<'d> {
    /// The sender's GID.
    pub sgid: [u8; 16],
    /// The receiver's GID.
    pub dgid: [u8; 16],
    /// Of the address handle.
    pub traffic_class: u8,
    /// Of the address handle, if it is for a group. What is for one host has the system's.
    pub hop_limit: Option<u8>,
    /// The receiver's queue pair.
    pub dest_qpn: u32,
    /// The key that it has to have.
    pub qkey: u32,
    /// The sender's queue pair.
    pub source_qpn: u32,
    /// Its packet's number.
    pub psn: u32,
    /// Immediate data.
    pub immediate: Option<[u8; 4]>,
    /// The receiver is to have an event.
    pub solicited: bool,
    /// Its bytes.
    pub payload: &'d [u8],
}

/// Whom a datagram of another host is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatagramReceiver {
    /// The queue pair with this number.
    QueuePair(u32),
    /// All queue pairs that are attached to the group with this GID.
    Group([u8; 16]),
}

/// What the send queue of a queue pair has for the link.
#[derive(Debug)]
pub(crate) enum NextRequest {
    /// A request, which is in flight from now on.
    Request(RemoteRequest),
    /// Nothing now.
    Nothing,
    /// Somebody else has a lock.
    Busy,
}

/// Stretches of this process's memory.
type Ours = ArrayVec<Segment, MAX_SEGMENTS>;

fn read_only(parts: &[&[u8]]) -> Ours {
    parts.iter().take(MAX_SEGMENTS).map(|part| process_memory::ours(part)).collect()
}

fn writable(parts: &mut [&mut [u8]]) -> Ours {
    parts.iter_mut().take(MAX_SEGMENTS).map(|part| process_memory::ours_mut(part)).collect()
}

fn remote(wr: RemoteWr) -> Remote {
    Remote { address: wr.addr, rkey: wr.rkey }
}

/// What a request asks of the peer; `None` if it is for no peer.
fn opcode_of(wqe: &SendWqe<'_>, kind: u32) -> Option<Opcode> {
    let is_rc = kind == qp_type::RC;
    let immediate = wqe.imm.to_ne_bytes();
    Some(match wqe.opcode {
        opcode::SEND => Opcode::Send(SendEnd::Plain),
        opcode::SEND_WITH_IMM => Opcode::Send(SendEnd::Immediate(immediate)),
        opcode::SEND_WITH_INV if is_rc => Opcode::Send(SendEnd::Invalidate(wqe.imm)),
        opcode::RDMA_WRITE => Opcode::Write(remote(wqe.remote()), None),
        opcode::RDMA_WRITE_WITH_IMM => Opcode::Write(remote(wqe.remote()), Some(immediate)),
        opcode::RDMA_READ if is_rc => Opcode::Read(remote(wqe.remote())),
        opcode::ATOMIC_CMP_AND_SWP if is_rc => {
            let AtomicWr { remote: to, compare_add, swap } = wqe.atomic();
            Opcode::CompareSwap { remote: remote(to), compare: compare_add, swap }
        }
        opcode::ATOMIC_FETCH_AND_ADD if is_rc => {
            let AtomicWr { remote: to, compare_add, .. } = wqe.atomic();
            Opcode::FetchAdd { remote: remote(to), add: compare_add }
        }
        opcode::ATOMIC_WRITE if is_rc => Opcode::AtomicWrite(remote(wqe.remote())),
        _ => return None,
    })
}

fn status_of(ended: Status) -> u32 {
    match ended {
        Status::Success => status::SUCCESS,
        Status::LocalLength => wc_status::TOO_LONG,
        Status::LocalOperation => wc_status::MALFORMED,
        Status::LocalProtection => wc_status::LOCAL_MEMORY,
        Status::BadResponse => status::BAD_RESP_ERR,
        Status::RemoteInvalidRequest => status::REM_INV_REQ_ERR,
        Status::RemoteAccess => status::REM_ACCESS_ERR,
        Status::RemoteOperation => status::REM_OP_ERR,
        Status::RetryExceeded => status::RETRY_EXC_ERR,
        Status::RnrRetryExceeded => status::RNR_RETRY_EXC_ERR,
    }
}

fn failure_of(error: RequestError) -> Failure {
    Failure::Failed(match error {
        RequestError::Failed(wc_status::TOO_LONG) => Status::LocalLength,
        RequestError::Failed(wc_status::LOCAL_MEMORY) => Status::LocalProtection,
        RequestError::Failed(_) => Status::LocalOperation,
        _ => return Failure::Busy,
    })
}

impl<'a> Actor<'a> {
    /// The requester of a queue pair that is up, whose lock the caller has.
    fn up(&self, qp: &'a Qp, qpn: u32) -> Option<Requester<'a>> {
        let is_up = matches!(qp.state.load(Acquire), state::RTS | state::SQD);
        let ring = self.send_ring(qp).filter(|_| is_up && qp.live.load(Acquire) == qpn)?;
        Some(Requester::new(qp, qpn, ring))
    }

    /// The next request of a connected queue pair that is for its peer.
    pub(crate) fn next_request(&self, qpn: u32) -> NextRequest {
        let Some(qp) = self.arena.qp(qpn) else { return NextRequest::Nothing };
        let mut deferred = Deferred::default();
        let next = {
            let Some(_guard) = self.lock(&qp.send_lock) else { return NextRequest::Busy };
            match self.up(qp, qpn) {
                Some(requester) => self.begin_next(&requester, &mut deferred),
                None => NextRequest::Nothing,
            }
        };
        self.run_deferred(&mut deferred);
        next
    }

    fn begin_next(&self, requester: &Requester<'a>, deferred: &mut Deferred) -> NextRequest {
        let head = requester.head();
        let posted = requester.ring.distance(head, requester.ring.producer());
        if posted == 0 || requester.qp.state.load(Acquire) != state::RTS {
            return NextRequest::Nothing;
        }
        let wqe = requester.wqe(head);
        if matches!(wqe.opcode, opcode::LOCAL_INV | opcode::BIND_MW) {
            // Whoever runs the queue does these, when nothing is in flight.
            if requester.in_flight() == 0 {
                deferred.kicks.push((requester.qpn, 0));
            }
            return NextRequest::Nothing;
        }
        let mut list = SegmentList::new();
        let begun = match opcode_of(&wqe, requester.kind) {
            None => Err(RequestError::Failed(wc_status::MALFORMED)),
            Some(opcode @ Opcode::Read(_)) => {
                requester.gather(self, &wqe, SCATTER, &mut list).map(|length| (opcode, length))
            }
            Some(opcode @ (Opcode::CompareSwap { .. } | Opcode::FetchAdd { .. })) => {
                match requester.gather(self, &wqe, SCATTER, &mut list) {
                    Ok(8..) => Ok((opcode, 8)),
                    Ok(_) => Err(RequestError::Failed(wc_status::TOO_LONG)),
                    Err(error) => Err(error),
                }
            }
            Some(opcode @ Opcode::AtomicWrite(_)) => Ok((opcode, 8)),
            Some(opcode) => {
                requester.payload(self, &wqe, &mut list).map(|(_, length)| (opcode, length))
            }
        };
        match begun {
            Ok((opcode, length)) => {
                let in_flight = requester.qp.sq_in_flight.load(Acquire);
                requester.qp.sq_in_flight.store(in_flight + 1, Release);
                NextRequest::Request(RemoteRequest {
                    id: u64::from(head & requester.ring.mask()),
                    opcode,
                    length,
                    solicited: wqe.flags & send_flag::SOLICITED != 0,
                    fence: wqe.flags & send_flag::FENCE != 0,
                })
            }
            Err(RequestError::Failed(status)) if requester.in_flight() == 0 => {
                let Some(_cq) = self.hold_cq(requester.send_cq) else { return NextRequest::Busy };
                self.fail(requester, status, deferred);
                NextRequest::Nothing
            }
            Err(_) => NextRequest::Nothing,
        }
    }

    /// Copies bytes of a request in flight into `out`, one part behind the other.
    ///
    /// # Errors
    ///
    /// [`Failure::Busy`], also when the queue pair has left its state; or the request's failure.
    pub(crate) fn fetch_payload(
        &self,
        qpn: u32,
        id: u64,
        offset: u32,
        out: &mut [&mut [u8]],
    ) -> Result<(), Failure> {
        if out.iter().all(|part| part.is_empty()) {
            return Ok(());
        }
        let qp = self.arena.qp(qpn).ok_or(Failure::Busy)?;
        let _guard = self.lock(&qp.send_lock).ok_or(Failure::Busy)?;
        let requester = self.up(qp, qpn).ok_or(Failure::Busy)?;
        let wqe = requester.wqe(id as u32);
        if wqe.opcode == opcode::ATOMIC_WRITE {
            let bytes = wqe.atomic_write_data().to_ne_bytes();
            return match out {
                [out] if out.len() == bytes.len() => {
                    out.copy_from_slice(&bytes);
                    Ok(())
                }
                _ => Err(Failure::Failed(Status::LocalOperation)),
            };
        }
        let mut list = SegmentList::new();
        let (place, _) = requester.payload(self, &wqe, &mut list).map_err(failure_of)?;
        self.copy_out(&requester, place, &list, offset, out)
    }

    fn copy_out(
        &self,
        requester: &Requester<'_>,
        place: Payload,
        list: &SegmentList,
        offset: u32,
        out: &mut [&mut [u8]],
    ) -> Result<(), Failure> {
        let ours = writable(out);
        let wanted = length(&ours);
        let piece = list.piece(offset.into(), wanted);
        if piece.bytes() != wanted {
            // The program has changed a request in flight.
            return Err(Failure::Failed(Status::LocalOperation));
        }
        let from = piece.of_process(requester.proc_of(place, self.me));
        let ours = Memory::unregistered(self.me, &ours);
        self.link.copy(self.arena, self.me, from, ours).map_err(|fault| match fault {
            Fault::Unreachable => Failure::Busy,
            _ => Failure::Failed(Status::LocalProtection),
        })
    }

    fn place_answer(&self, qpn: u32, id: u64, offset: u32, parts: &[&[u8]]) -> Result<(), Failure> {
        let qp = self.arena.qp(qpn).ok_or(Failure::Busy)?;
        let _guard = self.lock(&qp.send_lock).ok_or(Failure::Busy)?;
        let requester = self.up(qp, qpn).ok_or(Failure::Busy)?;
        let mut list = SegmentList::new();
        let gathered = requester.gather(self, &requester.wqe(id as u32), SCATTER, &mut list);
        gathered.map_err(failure_of)?;
        let ours = read_only(parts);
        let piece = list.piece(offset.into(), length(&ours));
        if piece.bytes() != length(&ours) {
            return Err(Failure::Failed(Status::LocalOperation));
        }
        let to = piece.of_process(requester.owner.proc);
        let ours = Memory::unregistered(self.me, &ours);
        self.link.copy(self.arena, self.me, ours, to).map_err(|fault| match fault {
            Fault::Unreachable => Failure::Busy,
            _ => Failure::Failed(Status::LocalProtection),
        })
    }

    /// The oldest request in flight has ended. False if a lock or room for its completion is
    /// missing.
    fn end_oldest(&self, qpn: u32, ended: Status, full: &mut Option<Full>) -> bool {
        let Some(qp) = self.arena.qp(qpn) else { return true };
        let mut deferred = Deferred::default();
        {
            let Some(_guard) = self.lock(&qp.send_lock) else { return false };
            let Some(requester) = self.up(qp, qpn).filter(|requester| requester.in_flight() > 0)
            else {
                return true;
            };
            let Some(_cq) = self.hold_cq(requester.send_cq) else { return false };
            match status_of(ended) {
                status::SUCCESS => {
                    let _room = if requester.is_signaled(requester.oldest().flags) {
                        match self.claim_or_wait(requester.send_cq, full) {
                            None => return false,
                            room => room,
                        }
                    } else {
                        None
                    };
                    requester.complete_in_flight(self, 1, &mut deferred);
                }
                failed => self.fail_oldest(&requester, failed, &mut deferred),
            }
        }
        self.run_deferred(&mut deferred);
        true
    }

    /// The oldest request in flight fails, and with it the queue pair.
    fn fail_oldest(&self, requester: &Requester<'_>, status: u32, deferred: &mut Deferred) {
        let Requester { qp, qpn, .. } = *requester;
        set_error(qp, qpn, can_fail, deferred);
        let oldest = qp.sq_consumer.load(Acquire) & requester.ring.mask();
        let wqe = requester.wqe(oldest);
        let wr_id = wqe.wr_id;
        if self.is_observed() {
            deferred.cause = deferred.cause.or_else(|| self.why_remote(requester, &wqe, status));
        }
        requester.observe(self, oldest, (0, status), None, deferred.cause);
        let retiring = retire(&qp.sq_consumer, &requester.ring, oldest.wrapping_add(1));
        self.complete(requester.send_cq, &Cqe::error(wr_id, status, qpn), false, deferred);
        drop(retiring);
        self.flush_send_ring(qp, qpn, deferred);
        self.flush_receives(qp, qpn, deferred);
    }

    /// Delivers a datagram of another host: `grh` are the 40 bytes before its payload. Whether
    /// somebody has taken it.
    pub(crate) fn deliver_remote(
        &self,
        grh: &[u8; 40],
        payload: &[u8],
        receiver: DatagramReceiver,
        (qkey, source_qpn): (u32, u32),
        immediate: Option<[u8; 4]>,
        solicited: bool,
    ) -> bool {
        let mut segments = SegmentList::new();
        segments.push(process_memory::ours(grh), Region::NONE);
        if !payload.is_empty() {
            segments.push(process_memory::ours(payload), Region::NONE);
        }
        let is_ipv4 = grh[0] >> 4 != 6;
        let received = ReceiveCompletion {
            opcode: if immediate.is_some() { opcode::SEND_WITH_IMM } else { opcode::SEND },
            flags: if solicited { send_flag::SOLICITED } else { 0 },
            imm: immediate.map_or(0, u32::from_ne_bytes),
            src_qp: source_qpn,
            network_type: if is_ipv4 { network_type::IPV4 } else { network_type::IPV6 },
            ..ReceiveCompletion::default()
        };
        let datagram = Datagram { proc: self.me, segments: &segments, qkey, received };
        let mut deferred = Deferred::default();
        let is_taken = match receiver {
            DatagramReceiver::QueuePair(qpn) => {
                matches!(self.deliver(qpn, &datagram, &mut deferred), Ok(Some(_)))
            }
            DatagramReceiver::Group(group) => {
                self.deliver_to_group(&group, &datagram, &mut deferred) == Ok(true)
            }
        };
        self.run_deferred(&mut deferred);
        is_taken
    }
}

/// The send queue of a queue pair whose peer is on another host.
#[derive(Debug)]
pub(crate) struct RemoteSends<'a, 'q> {
    /// Who does it.
    pub actor: Actor<'a>,
    /// The queue pair.
    pub qpn: u32,
    /// A completion that waits for room in its queue.
    pub full: &'q mut Option<Full>,
    /// A lock or room was missing: it is to be tried again.
    pub is_busy: bool,
}

impl SendQueue for RemoteSends<'_, '_> {
    fn place(&mut self, id: u64, offset: u32, parts: &[&[u8]]) -> Result<(), Failure> {
        let placed = self.actor.place_answer(self.qpn, id, offset, parts);
        self.is_busy |= placed == Err(Failure::Busy);
        placed
    }

    fn complete(&mut self, _id: u64, status: Status) -> bool {
        let is_done = self.actor.end_oldest(self.qpn, status, self.full);
        self.is_busy |= !is_done;
        is_done
    }
}

/// What a connected queue pair keeps between two packets of a message that it receives.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    incoming: Option<Incoming>,
    error: Option<ReceiveError>,
    /// Its completion waits for room in the queue.
    full: Option<Full>,
    /// The queue pair is to fail as soon as the lock is free.
    failing: Option<Refusal>,
}

impl Arriving {
    /// Whether the failure of the queue pair waits for a lock.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing.is_some()
    }
}

/// The receives and the memory of a queue pair whose peer is on another host.
#[derive(Debug)]
pub(crate) struct RemoteTarget<'a, 'q> {
    /// Who does it.
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
            let _held = actor.hold_receiver(qp).ok_or(Refusal::Busy)?;
            let responder = actor.responder(qp, self.qpn, self.kind);
            let mut responder = responder.ok_or(Refusal::Busy)?;
            work(&actor, &mut responder, self.arriving, &mut deferred)
        };
        actor.run_deferred(&mut deferred);
        done
    }

    /// Copies memory that the peer reads into `out`.
    ///
    /// # Errors
    ///
    /// As [`Target::check`].
    pub(crate) fn read(&mut self, from: Remote, out: &mut [&mut [u8]]) -> Result<(), Refusal> {
        let ours = writable(out);
        self.with(|actor, responder, _, _| {
            let right = access::REMOTE_READ;
            let (segment, region) = reach(actor, responder, right, from, length(&ours))?;
            let (segments, regions) = ([segment], [region]);
            let memory =
                Memory { proc: responder.owner.proc, segments: &segments, regions: &regions };
            let ours = Memory::unregistered(actor.me, &ours);
            actor.link.copy(actor.arena, actor.me, memory, ours).map_err(refusal_of)
        })
    }

    /// Has the queue pair fail, if that has waited for a lock.
    pub(crate) fn fail_now(&mut self) {
        if let Some(reason) = self.arriving.failing {
            self.fail(reason);
        }
    }
}

fn refusal_of(fault: Fault) -> Refusal {
    match fault {
        Fault::Unreachable => Refusal::Busy,
        _ => Refusal::Access,
    }
}

fn reach(
    actor: &Actor<'_>,
    responder: &Responder<'_>,
    right: u32,
    remote: Remote,
    length: u64,
) -> Result<(Segment, Region), Refusal> {
    let wr = RemoteWr { addr: remote.address, rkey: remote.rkey };
    let reached = responder.reach(actor.arena, right, wr, length);
    reached.map_err(|status| match status {
        wc_status::REMOTE_REFUSES => Refusal::InvalidRequest,
        _ => Refusal::Access,
    })
}

impl Target for RemoteTarget<'_, '_> {
    fn take_receive(&mut self) -> Result<(), Refusal> {
        self.with(|actor, responder, arriving, deferred| {
            let incoming = Incoming::begin(responder, actor, deferred).ok_or(Refusal::NotReady)?;
            if responder.is_shared() {
                responder.qp.taken_wr_id.store(incoming.wr_id(), Release);
                responder.qp.taken.store(1, Release);
            }
            arriving.incoming = Some(incoming);
            Ok(())
        })
    }

    fn place(&mut self, offset: u32, parts: &[&[u8]]) -> Result<(), Refusal> {
        let ours = read_only(parts);
        self.with(|actor, responder, arriving, _| {
            let incoming = arriving.incoming.as_mut().ok_or(Refusal::Busy)?;
            incoming.go_to(offset.into());
            let ours = Memory::unregistered(actor.me, &ours);
            incoming.place(responder, actor, ours).map_err(|error| match error {
                PlaceError::Receive(error) => {
                    arriving.error = Some(error);
                    Refusal::Receive
                }
                PlaceError::Source | PlaceError::Unreachable => Refusal::Busy,
            })
        })
    }

    fn complete(&mut self, completion: Completion) -> Result<(), Refusal> {
        self.with(|actor, responder, arriving, deferred| {
            let incoming = arriving.incoming.as_ref().ok_or(Refusal::Busy)?;
            let (opcode, imm) = match completion.received {
                Received::Send(SendEnd::Plain) | Received::Datagram { .. } => (opcode::SEND, 0),
                Received::Send(SendEnd::Immediate(immediate)) => {
                    (opcode::SEND_WITH_IMM, u32::from_ne_bytes(immediate))
                }
                Received::Send(SendEnd::Invalidate(key)) => {
                    if !actor.can_invalidate(&responder.owner, key) {
                        return Err(Refusal::Access);
                    }
                    (opcode::SEND_WITH_INV, key)
                }
                Received::Write(immediate) => {
                    (opcode::RDMA_WRITE_WITH_IMM, u32::from_ne_bytes(immediate))
                }
            };
            let cq = responder.qp.recv_cq.load(Acquire);
            let room = actor.claim_or_wait(cq, &mut arriving.full);
            let _room = room.ok_or(Refusal::Busy)?;
            let received = ReceiveCompletion {
                wr_id: incoming.wr_id(),
                opcode,
                flags: if completion.solicited { send_flag::SOLICITED } else { 0 },
                imm,
                length: completion.length,
                ..ReceiveCompletion::default()
            };
            arriving.incoming = None;
            responder.qp.taken.store(0, Release);
            actor.complete_received(responder, [&received], deferred);
            Ok(())
        })
    }

    fn check(&mut self, access: Access, remote: Remote, length: u32) -> Result<(), Refusal> {
        let right = match access {
            Access::Read => access::REMOTE_READ,
            Access::Write => access::REMOTE_WRITE,
        };
        self.with(|actor, responder, _, _| {
            reach(actor, responder, right, remote, length.into()).map(drop)
        })
    }

    fn write(&mut self, remote: Remote, parts: &[&[u8]]) -> Result<(), Refusal> {
        let ours = read_only(parts);
        self.with(|actor, responder, _, _| {
            let right = access::REMOTE_WRITE;
            let (segment, region) = reach(actor, responder, right, remote, length(&ours))?;
            let (segments, regions) = ([segment], [region]);
            let memory =
                Memory { proc: responder.owner.proc, segments: &segments, regions: &regions };
            let ours = Memory::unregistered(actor.me, &ours);
            actor.link.copy(actor.arena, actor.me, ours, memory).map_err(refusal_of)
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
        self.with(|actor, responder, _, _| {
            actor.operate(responder, kind, operation).map_err(|error| match error {
                RequestError::Failed(wc_status::REMOTE_REFUSES) => Refusal::InvalidRequest,
                RequestError::Failed(_) => Refusal::Access,
                _ => Refusal::Busy,
            })
        })
    }

    fn fail(&mut self, reason: Refusal) {
        let failed = self.with(|actor, responder, arriving, deferred| {
            let status = match reason {
                Refusal::Receive => arriving.error.unwrap_or(ReceiveError::Small).status(),
                _ => status::WR_FLUSH_ERR,
            };
            let receive = arriving.incoming.take().map(|incoming| (incoming.wr_id(), status));
            responder.qp.taken.store(0, Release);
            responder.fail(actor, receive, deferred);
            Ok(())
        });
        let is_there =
            self.actor.arena.qp(self.qpn).is_some_and(|qp| can_fail(qp.state.load(Acquire)));
        self.arriving.failing = (failed.is_err() && is_there).then_some(reason);
    }
}
