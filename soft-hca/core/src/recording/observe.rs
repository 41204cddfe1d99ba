//! Events of the data path as notes.

use std::sync::atomic::Ordering::Acquire;

use soft_hca_roce::wire::ip;
use zerocopy::IntoBytes;

use super::Recorder;
use super::note::{self, Element};
use crate::engine::cause::{Cause, Words};
use crate::engine::{Async, Event, ReceiveQueue};
use crate::uapi::rxe::{MAX_SGE, Sge};
use crate::uapi::verbs::{opcode, qp_type, status};

/// A cause as it is noted, nothing for none.
fn words(cause: Option<Cause>) -> Option<Words> {
    cause.map(Cause::to_words)
}

fn list(elements: impl Iterator<Item = Sge>) -> arrayvec::ArrayVec<Element, MAX_SGE> {
    let noted = |sge: Sge| Element { address: sge.addr, length: sge.length, lkey: sge.lkey };
    elements.take(MAX_SGE).map(noted).collect()
}

/// Whether an event is, or ends, something that goes wrong.
fn is_failure(event: &Event<'_>) -> bool {
    match event {
        Event::SendPosted(_) | Event::ReceivePosted(_) | Event::Packet(_) => false,
        Event::WorkRequest(request) => {
            request.status != status::SUCCESS || request.cause.is_some() || request.has_waited
        }
        Event::Completion(completion) => {
            completion.cqe.status != status::SUCCESS || completion.is_lost
        }
        Event::Stalled { .. } | Event::Async(_) => true,
    }
}

impl Recorder {
    /// Notes an event. The caller may hold locks of the arena.
    pub fn observe(&self, event: &Event<'_>) {
        if !self.is_complete() && !is_failure(event) {
            return;
        }
        match event {
            Event::SendPosted(posted) => {
                let wqe = &posted.wqe;
                let mut body = note::SendPosted {
                    wr_id: wqe.wr_id,
                    qpn: posted.qpn,
                    qp_type: posted.qp_type,
                    opcode: wqe.opcode,
                    flags: wqe.flags,
                    imm: wqe.imm,
                    length: wqe.length(),
                    dgid: posted.dgid,
                    ..note::SendPosted::default()
                };
                match wqe.opcode {
                    _ if posted.qp_type == qp_type::UD => {
                        let target = wqe.datagram();
                        (body.dest_qpn, body.qkey) = (target.qpn, target.qkey);
                    }
                    opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD => {
                        let atomic = wqe.atomic();
                        (body.address, body.rkey) = (atomic.remote.addr, atomic.remote.rkey);
                        (body.compare_add, body.swap) = (atomic.compare_add, atomic.swap);
                    }
                    opcode::FLUSH => {
                        let flush = wqe.flush();
                        (body.address, body.rkey) = (flush.remote.addr, flush.remote.rkey);
                        body.compare_add = flush.placement.into();
                        body.swap = flush.selectivity.into();
                    }
                    opcode::BIND_MW => {
                        let bind = wqe.bind();
                        (body.address, body.compare_add) = (bind.addr, bind.length);
                        body.rkey = bind.new_rkey;
                    }
                    _ => {
                        let remote = wqe.remote();
                        (body.address, body.rkey) = (remote.addr, remote.rkey);
                    }
                }
                if wqe.opcode == opcode::ATOMIC_WRITE {
                    body.swap = wqe.atomic_write_data();
                }
                let elements = list((0..posted.elements).map(|index| wqe.sge(index)));
                self.note(self.about(posted.proc), &body, &[elements.as_bytes()]);
            }
            Event::ReceivePosted(posted) => {
                let (queue, is_shared) = match posted.queue {
                    ReceiveQueue::Own(qpn) => (qpn, 0),
                    ReceiveQueue::Shared(index) => (index, 1),
                };
                let wqe = &posted.wqe;
                let seen = posted.at_message.into();
                let body = note::ReceivePosted { wr_id: wqe.wr_id, queue, is_shared, seen };
                let count = (wqe.num_sge as usize).min(wqe.room());
                let elements = list((0..count).map(|index| wqe.sge(index)));
                self.note(self.about(posted.proc), &body, &[elements.as_bytes()]);
            }
            Event::Stalled { proc, qpn, wr_id, cause } => {
                let body = note::Stalled { wr_id: *wr_id, qpn: *qpn };
                self.note(self.about(*proc), &body, &[cause.to_words().as_bytes()]);
            }
            Event::WorkRequest(request) => {
                let receive = request.receive;
                let body = note::Executed {
                    wr_id: request.wqe.wr_id,
                    receive_wr_id: receive.map_or(0, |receive| receive.wr_id),
                    qpn: request.qpn,
                    opcode: request.wqe.opcode,
                    length: request.length,
                    status: request.status,
                    receive_qpn: receive.map_or(0, |receive| receive.qpn),
                    receive_proc: request.receive_proc,
                };
                let cause = words(request.cause);
                self.note(self.about(request.proc), &body, &[cause.as_slice().as_bytes()]);
            }
            Event::Completion(completion) => {
                let cqe = &completion.cqe;
                let body = note::Completion {
                    wr_id: cqe.wr_id,
                    cq: completion.cq,
                    qpn: cqe.qp_num,
                    opcode: cqe.opcode,
                    status: cqe.status,
                    length: cqe.byte_len,
                    imm: cqe.imm,
                    wc_flags: cqe.wc_flags,
                    is_solicited: completion.is_solicited.into(),
                    is_lost: completion.is_lost.into(),
                };
                let cause = words(completion.cause);
                let about = self.about(completion.proc);
                self.note(about, &body, &[cause.as_slice().as_bytes()]);
            }
            Event::Packet(packet) => {
                let headers = packet.headers;
                let (from, to) = packet.path;
                let opcode = headers.operation.opcode(headers.service);
                let aeth = headers.operation.aeth();
                let body = note::Packet {
                    qpn: packet.qpn,
                    dest_qpn: headers.dest_qpn.get(),
                    psn: headers.psn.get(),
                    length: packet.length,
                    opcode: opcode.map_or(u32::MAX, u32::from),
                    aeth: aeth.map_or(u32::MAX, |aeth| u32::from_be_bytes(aeth.encode())),
                    is_received: packet.is_received.into(),
                    ignored: packet.ignored,
                    from: ip::gid(from),
                    to: ip::gid(to),
                };
                let owner = self.arena.qp(packet.qpn).map(|qp| qp.proc.load(Acquire));
                self.note(self.about(owner.unwrap_or(self.index())), &body, &[]);
            }
            Event::Async(what) => {
                let (kind, index) = what.to_words();
                let arena = &self.arena;
                let proc = match *what {
                    Async::CqOverflow(cq) => arena.cqs.get(cq as usize).map(|cq| &cq.proc),
                    Async::SrqLimit(srq) => arena.srqs.get(srq as usize).map(|srq| &srq.proc),
                    Async::SqDrained(qpn)
                    | Async::QpFatal(qpn)
                    | Async::LastWqeReached(qpn)
                    | Async::QpRequest(qpn)
                    | Async::QpAccess(qpn)
                    | Async::PathMigrated(qpn)
                    | Async::PathMigrationFailed(qpn) => arena.qp(qpn).map(|qp| &qp.proc),
                };
                let Some(proc) = proc else { return };
                let about = self.about(proc.load(Acquire));
                self.note(about, &note::Raised { kind, index }, &[]);
            }
        }
    }
}
