//! The send queue: requests begin, their bytes are read, answers placed, completions added.

use std::sync::atomic::Ordering::{Acquire, Release};

use soft_hca_roce::transport::packet_sender::Busy;
use soft_hca_roce::transport::request::{
    Failure, Opcode, Remote, SendQueue, Status, WorkRequest as RemoteRequest,
};
use soft_hca_roce::wire::headers::Feth;
use soft_hca_roce::wire::opcode::SendEnd;
use soft_hca_verbs::WcStatus;
use soft_hca_verbs::cause::{Cause, Malformed, MemoryRole, Peer};

use super::{read_only, writable};
use crate::arena::{Mapping, Qp};
use crate::engine::actor::Actor;
use crate::engine::atomic::{WORD, check_result_capacity};
use crate::engine::check::CheckError;
use crate::engine::credit::{CreditWait, reserve_or_wait};
use crate::engine::cursor::send_ring;
use crate::engine::deferred::Deferred;
use crate::engine::locking::lock_cq_ahead;
use crate::engine::memory::SCATTER;
use crate::engine::request::Requester;
use crate::engine::request_error::RequestError;
use crate::engine::segments::{Memory, SegmentList, length};
use crate::engine::{effects, posted, wc_status};
use crate::uapi::rxe::{AtomicWr, FlushWr, RemoteWr, SendWqe};
use crate::uapi::verbs::{WrOpcode, opcode, qp_type, send_flag, state, status};

/// A request, which is in flight from now on; `None` if there is none now.
pub(super) type NextRequest = Result<Option<RemoteRequest>, Busy>;

fn remote(wr: RemoteWr) -> Remote {
    Remote { address: wr.addr, rkey: wr.rkey }
}

/// The operation that the peer is to do for a request; `None` if it is for no peer.
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
        opcode::FLUSH if is_rc => {
            let FlushWr { remote: to, placement, selectivity, .. } = wqe.flush();
            Opcode::Flush(remote(to), Feth { placement, selectivity })
        }
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

/// The status as the transport knows it.
fn status_for(error: &CheckError) -> Status {
    match error.status() {
        wc_status::TOO_LONG => Status::LocalLength,
        wc_status::LOCAL_MEMORY => Status::LocalProtection,
        _ => Status::LocalOperation,
    }
}

/// State of a connected queue pair between two steps of the requests that it sends.
#[derive(Debug, Default)]
pub struct Sending {
    /// A completion waits for a credit of its queue.
    pub(in crate::engine) full: Option<CreditWait>,
    /// The request that fails here once those before it are complete, and why.
    failed: Option<(u64, CheckError)>,
}

/// The requester of a queue pair that is up, whose lock the caller has.
fn up<'a>(arena: &'a Mapping, qp: &'a Qp, qpn: u32) -> Option<Requester<'a>> {
    let is_up = matches!(qp.state.load(Acquire), state::RTS | state::SQD);
    let ring = send_ring(arena, qp).filter(|_| is_up && qp.live.load(Acquire) == qpn)?;
    Some(Requester::new(qp, qpn, ring))
}

/// The next request of a connected queue pair that is for its peer.
///
/// # Errors
///
/// [`Busy`] if somebody else has a lock.
fn next_request(actor: &Actor<'_>, qpn: u32) -> NextRequest {
    let Some(qp) = actor.arena.qp(qpn) else { return Ok(None) };
    let mut deferred = Deferred::default();
    let next = {
        let Some(_guard) = actor.lock(&qp.send_lock) else { return Err(Busy) };
        match up(actor.arena, qp, qpn) {
            Some(requester) => begin_next(actor, &requester, &mut deferred),
            None => Ok(None),
        }
    };
    effects::carry_out(actor, &mut deferred);
    next
}

fn begin_next<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    deferred: &mut Deferred,
) -> NextRequest {
    let head = requester.head();
    let posted = requester.ring.distance(head, requester.ring.producer());
    if posted == 0 || requester.qp.state.load(Acquire) != state::RTS {
        return Ok(None);
    }
    if actor.is_traced() {
        posted::trace_sends(actor, requester.qp, requester.qpn);
    }
    let wqe = requester.wqe(head);
    if matches!(wqe.opcode, opcode::LOCAL_INV | opcode::BIND_MW) {
        // These are executed where the queue is run, when nothing is in flight.
        if requester.in_flight() == 0 {
            deferred.rescheduled.push((requester.qpn, 0));
        }
        return Ok(None);
    }
    match begin(actor, requester, &wqe) {
        Ok((opcode, length)) => {
            let in_flight = requester.qp.sq_in_flight.load(Acquire);
            requester.qp.sq_in_flight.store(in_flight + 1, Release);
            Ok(Some(RemoteRequest {
                id: u64::from(head & requester.ring.mask()),
                opcode,
                length,
                solicited: wqe.flags & send_flag::SOLICITED != 0,
                fence: wqe.flags & send_flag::FENCE != 0,
            }))
        }
        Err(error) if requester.in_flight() == 0 => {
            let Some(_cq) = lock_cq_ahead(actor, requester.send_cq) else { return Err(Busy) };
            requester.fail(actor, &error, deferred);
            Ok(None)
        }
        Err(_) => Ok(None),
    }
}

/// Checks a request that is about to be sent; gives what it asks of the peer, and its length.
fn begin<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    wqe: &SendWqe<'a>,
) -> Result<(Opcode, u32), CheckError> {
    let opcode = opcode_of(wqe, requester.kind);
    let opcode = opcode.ok_or_else(|| CheckError::malformed(Malformed::Opcode))?;
    if WrOpcode(wqe.opcode).has_response() {
        requester.check_read_depth()?;
    }
    let mut list = SegmentList::new();
    let length = match opcode {
        Opcode::Read(_) => requester.gather(actor, wqe, SCATTER, &mut list)?,
        Opcode::CompareSwap { .. } | Opcode::FetchAdd { .. } => {
            check_result_capacity(requester.gather(actor, wqe, SCATTER, &mut list)?)?;
            WORD
        }
        Opcode::AtomicWrite(_) => WORD,
        Opcode::Flush(..) => wqe.length(),
        _ => requester.payload(actor, wqe, &mut list)?.1,
    };
    Ok((opcode, length))
}

/// Does something with a request in flight, whose queue pair is locked. [`Failure::Busy`] also
/// when the queue pair has left its state.
fn with_request<'a>(
    actor: &Actor<'a>,
    qpn: u32,
    id: u64,
    sending: &mut Sending,
    work: impl FnOnce(&Requester<'a>, &SendWqe<'a>) -> Result<(), RequestError>,
) -> Result<(), Failure> {
    let qp = actor.arena.qp(qpn).ok_or(Failure::Busy)?;
    let _guard = actor.lock(&qp.send_lock).ok_or(Failure::Busy)?;
    let requester = up(actor.arena, qp, qpn).ok_or(Failure::Busy)?;
    work(&requester, &requester.wqe(id as u32)).map_err(|error| match error {
        RequestError::Failed(error) => {
            let status = status_for(&error);
            sending.failed = Some((id, error));
            Failure::Failed(status)
        }
        _ => Failure::Busy,
    })
}

/// Copies bytes of a request into `out`, one part behind the other.
fn copy_payload<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    wqe: &SendWqe<'a>,
    offset: u32,
    out: &mut [&mut [u8]],
) -> Result<(), RequestError> {
    if wqe.opcode == opcode::ATOMIC_WRITE {
        let bytes = wqe.atomic_write_data().to_ne_bytes();
        return match out {
            [out] if out.len() == bytes.len() => {
                out.copy_from_slice(&bytes);
                Ok(())
            }
            _ => Err(CheckError::malformed(Malformed::Unknown).into()),
        };
    }
    let mut list = SegmentList::new();
    let (location, _) = requester.payload(actor, wqe, &mut list)?;
    let ours = writable(out);
    let piece = piece(&list, offset, length(&ours))?;
    let from = piece.of_process(requester.proc_of(location, actor.me));
    let ours = Memory::unregistered(actor.me, &ours);
    let unmoved = |fault| RequestError::unmoved(fault, MemoryRole::Local);
    actor.copy(from, ours).map_err(unmoved)
}

/// Copies what the peer has answered to where a request wants it.
fn copy_answer<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    wqe: &SendWqe<'a>,
    offset: u32,
    parts: &[&[u8]],
) -> Result<(), RequestError> {
    let mut list = SegmentList::new();
    requester.gather(actor, wqe, SCATTER, &mut list)?;
    let ours = read_only(parts);
    let piece = piece(&list, offset, length(&ours))?;
    let to = piece.of_process(requester.owner.proc);
    let ours = Memory::unregistered(actor.me, &ours);
    let unmoved = |fault| RequestError::unmoved(fault, MemoryRole::Local);
    actor.copy(ours, to).map_err(unmoved)
}

/// The oldest request in flight has ended. False if a lock or a credit for its completion
/// is missing.
fn end_oldest(actor: &Actor<'_>, qpn: u32, id: u64, ended: Status, sending: &mut Sending) -> bool {
    let Some(qp) = actor.arena.qp(qpn) else { return true };
    let mut deferred = Deferred::default();
    {
        let Some(_guard) = actor.lock(&qp.send_lock) else { return false };
        let Some(requester) =
            up(actor.arena, qp, qpn).filter(|requester| requester.in_flight() > 0)
        else {
            return true;
        };
        let Some(_cq) = lock_cq_ahead(actor, requester.send_cq) else { return false };
        match status_of(ended) {
            status::SUCCESS => {
                let _credit = if requester.is_signaled(requester.wqe(requester.oldest()).flags) {
                    match reserve_or_wait(actor, requester.send_cq, &mut sending.full) {
                        None => return false,
                        credit => credit,
                    }
                } else {
                    None
                };
                requester.complete_in_flight(actor, 1, &mut deferred);
            }
            failed => {
                let ours = sending.failed.take().filter(|(failed, _)| *failed == id);
                let cause = why_ended(requester.qp, failed, ours.map(|(_, error)| error));
                let oldest = requester.oldest();
                requester.fail_at(actor, oldest, (failed, cause), &mut deferred);
            }
        }
    }
    effects::carry_out(actor, &mut deferred);
    true
}

/// `length` bytes of what a request lists, from an offset on; they are there, unless the program
/// has changed a request in flight.
fn piece(list: &SegmentList, offset: u32, length: u64) -> Result<SegmentList, CheckError> {
    let piece = list.piece(offset.into(), length);
    if piece.bytes() == length { Ok(piece) } else { Err(CheckError::malformed(Malformed::Unknown)) }
}

/// Why a request has ended with an error: what failed here, if it was that; of the peer no more is
/// known than the status.
fn why_ended(qp: &Qp, ended: u32, ours: Option<CheckError>) -> Option<Cause> {
    match ended {
        status::RETRY_EXC_ERR => Some(Cause::NoResponse {
            waited: 0,
            timeout: qp.timeout.load(Acquire),
            retry_cnt: qp.retry_cnt.load(Acquire),
            peer: Peer::Remote,
        }),
        status::RNR_RETRY_EXC_ERR
        | status::BAD_RESP_ERR
        | status::REM_INV_REQ_ERR
        | status::REM_ACCESS_ERR
        | status::REM_OP_ERR => Some(Cause::Refused { status: WcStatus(ended) }),
        _ => ours.map(|error| error.cause()),
    }
}

/// The send queue of a queue pair whose peer is on another host.
#[derive(Debug)]
pub struct RemoteSends<'a, 'q> {
    /// The process that does it.
    pub actor: Actor<'a>,
    /// The queue pair.
    pub qpn: u32,
    /// The requests under way.
    pub sending: &'q mut Sending,
}

impl SendQueue for RemoteSends<'_, '_> {
    fn next_request(&mut self) -> NextRequest {
        next_request(&self.actor, self.qpn)
    }

    fn gather(&mut self, id: u64, offset: u32, parts: &mut [&mut [u8]]) -> Result<(), Failure> {
        if parts.iter().all(|part| part.is_empty()) {
            return Ok(());
        }
        let Self { actor, qpn, sending } = self;
        with_request(actor, *qpn, id, sending, |requester, wqe| {
            copy_payload(actor, requester, wqe, offset, parts)
        })
    }

    fn scatter(&mut self, id: u64, offset: u32, parts: &[&[u8]]) -> Result<(), Failure> {
        let Self { actor, qpn, sending } = self;
        with_request(actor, *qpn, id, sending, |requester, wqe| {
            copy_answer(actor, requester, wqe, offset, parts)
        })
    }

    fn complete(&mut self, id: u64, status: Status) -> Result<(), Busy> {
        let Self { actor, qpn, sending } = self;
        if end_oldest(actor, *qpn, id, status, sending) { Ok(()) } else { Err(Busy) }
    }
}
