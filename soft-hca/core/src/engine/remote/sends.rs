//! The send queue: requests begin, their bytes are read, answers placed, completions added.

use std::sync::atomic::Ordering::{Acquire, Release};

use soft_hca_roce::transport::port::Busy;
use soft_hca_roce::transport::request::{
    Failure, Opcode, Remote, SendQueue, Status, WorkRequest as RemoteRequest,
};
use soft_hca_roce::wire::headers::Feth;
use soft_hca_roce::wire::opcode::SendEnd;

use super::{read_only, writable};
use crate::arena::Qp;
use crate::engine::cursor::retire;
use crate::engine::deferred::Deferred;
use crate::engine::flush::{can_fail, set_error};
use crate::engine::memory::SCATTER;
use crate::engine::request::{Payload, RequestError, Requester};
use crate::engine::room::Full;
use crate::engine::segments::{Fault, Memory, SegmentList, length};
use crate::engine::{Actor, wc_status};
use crate::uapi::rxe::{AtomicWr, Cqe, FlushWr, RemoteWr, SendWqe};
use crate::uapi::verbs::{opcode, qp_type, send_flag, state, status};

/// A request, which is in flight from now on; `None` if there is none now.
pub(super) type NextRequest = Result<Option<RemoteRequest>, Busy>;

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
    ///
    /// # Errors
    ///
    /// [`Busy`] if somebody else has a lock.
    pub fn next_request(&self, qpn: u32) -> NextRequest {
        let Some(qp) = self.arena.qp(qpn) else { return Ok(None) };
        let mut deferred = Deferred::default();
        let next = {
            let Some(_guard) = self.lock(&qp.send_lock) else { return Err(Busy) };
            match self.up(qp, qpn) {
                Some(requester) => self.begin_next(&requester, &mut deferred),
                None => Ok(None),
            }
        };
        self.run_deferred(&mut deferred);
        next
    }

    fn begin_next(&self, requester: &Requester<'a>, deferred: &mut Deferred) -> NextRequest {
        let head = requester.head();
        let posted = requester.ring.distance(head, requester.ring.producer());
        if posted == 0 || requester.qp.state.load(Acquire) != state::RTS {
            return Ok(None);
        }
        let wqe = requester.wqe(head);
        if matches!(wqe.opcode, opcode::LOCAL_INV | opcode::BIND_MW) {
            // Whoever runs the queue does these, when nothing is in flight.
            if requester.in_flight() == 0 {
                deferred.kicks.push((requester.qpn, 0));
            }
            return Ok(None);
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
            Some(opcode @ Opcode::Flush(..)) => Ok((opcode, wqe.length())),
            Some(opcode) => {
                requester.payload(self, &wqe, &mut list).map(|(_, length)| (opcode, length))
            }
        };
        match begun {
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
            Err(RequestError::Failed(status)) if requester.in_flight() == 0 => {
                let Some(_cq) = self.hold_cq(requester.send_cq) else { return Err(Busy) };
                self.fail(requester, status, deferred);
                Ok(None)
            }
            Err(_) => Ok(None),
        }
    }

    /// Copies bytes of a request in flight into `out`, one part behind the other.
    ///
    /// # Errors
    ///
    /// [`Failure::Busy`], also when the queue pair has left its state; or the request's failure.
    fn fetch_payload(
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
        if self.is_traced() {
            deferred.cause = deferred.cause.or_else(|| self.why_remote(requester, &wqe, status));
        }
        requester.trace_executed(self, oldest, (0, status), None, deferred.cause);
        let retiring = retire(&qp.sq_consumer, &requester.ring, oldest.wrapping_add(1));
        self.complete(requester.send_cq, &Cqe::error(wr_id, status, qpn), false, deferred);
        drop(retiring);
        self.flush_send_ring(qp, qpn, deferred);
        self.flush_receives(qp, qpn, deferred);
    }
}

/// The send queue of a queue pair whose peer is on another host.
#[derive(Debug)]
pub struct RemoteSends<'a, 'q> {
    /// Who does it.
    pub actor: Actor<'a>,
    /// The queue pair.
    pub qpn: u32,
    /// A completion that waits for room in its queue.
    pub full: &'q mut Option<Full>,
}

impl SendQueue for RemoteSends<'_, '_> {
    fn next_request(&mut self) -> NextRequest {
        self.actor.next_request(self.qpn)
    }

    fn gather(&mut self, id: u64, offset: u32, parts: &mut [&mut [u8]]) -> Result<(), Failure> {
        self.actor.fetch_payload(self.qpn, id, offset, parts)
    }

    fn scatter(&mut self, id: u64, offset: u32, parts: &[&[u8]]) -> Result<(), Failure> {
        self.actor.place_answer(self.qpn, id, offset, parts)
    }

    fn complete(&mut self, _id: u64, status: Status) -> Result<(), Busy> {
        if self.actor.end_oldest(self.qpn, status, self.full) { Ok(()) } else { Err(Busy) }
    }
}
