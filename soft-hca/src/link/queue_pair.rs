//! A connected queue pair whose peer is on another host: its protocol, and how that uses the
//! engine.

use std::sync::atomic::Ordering::Acquire;

use soft_hca_roce::transport::attributes::{Attributes, Mtu};
use soft_hca_roce::transport::request::{Failure, Outgoing};
use soft_hca_roce::transport::responder::Reply;
use soft_hca_roce::transport::target::Refusal;
use soft_hca_roce::transport::{requester, responder, uc};
use soft_hca_roce::wire::bth::Psn;
use soft_hca_roce::wire::opcode::Service;
use soft_hca_roce::wire::packet::{Headers, Packet};

use crate::arena::Qp;
use crate::engine::remote::{Arriving, NextRequest, RemoteSends, RemoteTarget};
use crate::engine::{Actor, Event, Full, LinkPacket};
use crate::link::path::Path;
use crate::link::port::Port;
use crate::uapi::verbs::{qp_type, state};

/// What could not be done for want of a lock or of room is tried again after so long.
const BUSY_NS: u64 = 100_000;
/// Packets that are sent in a row before others have their turn.
const BURST: usize = 128;

/// A connected queue pair and what is under way.
#[derive(Debug)]
pub(super) struct QueuePair {
    qpn: u32,
    kind: u32,
    pub path: Path,
    halves: Halves,
    arriving: Arriving,
    /// A completion of a send that waits for room.
    full: Option<Full>,
    /// When it is to be served at the latest, apart from the protocol's own time.
    retry_at: Option<u64>,
}

/// Both halves; the sending one comes with the change to RTS.
#[derive(Debug)]
enum Halves {
    Reliable(Option<requester::Requester>, responder::Responder),
    Unreliable(Option<uc::Requester>, uc::Responder),
}

fn attributes(qp: &Qp) -> Option<Attributes> {
    let byte = |field: &std::sync::atomic::AtomicU32| field.load(Acquire) as u8;
    Some(Attributes {
        dest_qpn: qp.dest_qpn.load(Acquire),
        mtu: Mtu::from_code(byte(&qp.path_mtu))?,
        sq_psn: Psn::new(qp.sq_psn.load(Acquire)),
        rq_psn: Psn::new(qp.rq_psn.load(Acquire)),
        timeout: byte(&qp.timeout),
        retry_cnt: byte(&qp.retry_cnt),
        rnr_retry: byte(&qp.rnr_retry),
        min_rnr_timer: byte(&qp.min_rnr_timer),
        max_rd_atomic: byte(&qp.max_rd_atomic),
        max_dest_rd_atomic: byte(&qp.max_dest_rd_atomic),
    })
}

impl QueuePair {
    /// A queue pair that has come to RTR. `None` if it is of no connected type.
    pub(super) fn new(qp: &Qp, qpn: u32, path: Path) -> Option<Self> {
        let attributes = attributes(qp)?;
        let kind = qp.qp_type.load(Acquire);
        let halves = match kind {
            qp_type::RC => Halves::Reliable(None, responder::Responder::new(attributes)),
            qp_type::UC => Halves::Unreliable(None, uc::Responder::new(attributes)),
            _ => return None,
        };
        Some(Self {
            qpn,
            kind,
            path,
            halves,
            arriving: Arriving::default(),
            full: None,
            retry_at: None,
        })
    }

    /// It has come to RTS.
    pub(super) fn begin_to_send(&mut self, qp: &Qp) {
        let Some(attributes) = attributes(qp) else { return };
        match &mut self.halves {
            Halves::Reliable(half, _) => {
                half.get_or_insert_with(|| requester::Requester::new(attributes));
            }
            Halves::Unreliable(half, _) => {
                half.get_or_insert_with(|| uc::Requester::new(attributes));
            }
        }
    }

    /// Whether packets of a service are for it.
    pub(super) fn has(&self, service: Service) -> bool {
        match self.halves {
            Halves::Reliable(..) => service == Service::Rc,
            Halves::Unreliable(..) => service == Service::Uc,
        }
    }

    /// When [`QueuePair::serve`] is to be called at the latest.
    pub(super) fn deadline(&self) -> Option<u64> {
        let protocol = match &self.halves {
            Halves::Reliable(Some(half), _) => half.deadline(),
            _ => None,
        };
        [protocol, self.retry_at].into_iter().flatten().min()
    }

    /// Packets of the peer, either all responses or none.
    pub(super) fn hear(&mut self, actor: Actor<'_>, now: u64, packets: &[Packet<'_>]) {
        let Some(first) = packets.first() else { return };
        let Self { qpn, kind, halves, arriving, full, .. } = self;
        let mut target = RemoteTarget { actor, qpn: *qpn, kind: *kind, arriving };
        match halves {
            Halves::Reliable(requester, responder) => {
                if !first.headers.operation.is_response() {
                    responder.on_packets(packets, &mut target);
                } else if let Some(requester) = requester {
                    let mut queue = RemoteSends { actor, qpn: *qpn, full, is_busy: false };
                    requester.on_packets(now, packets, &mut queue);
                    if queue.is_busy {
                        self.retry_at = Some(now + BUSY_NS);
                    }
                }
            }
            Halves::Unreliable(_, responder) => responder.on_packets(packets, &mut target),
        }
    }

    /// Sends what there is to be sent, and completes what is done. Returns whether there is more.
    pub(super) fn serve(&mut self, actor: Actor<'_>, now: u64, port: &Port) -> bool {
        let Self { qpn, kind, path, halves, arriving, full, .. } = self;
        let (qpn, path) = (*qpn, *path);
        let mut queue = RemoteSends { actor, qpn, full, is_busy: false };
        let mut target = RemoteTarget { actor, qpn, kind: *kind, arriving };
        target.fail_now();
        let mut sent = 0;
        let mut is_busy = false;
        match halves {
            Halves::Reliable(requester, responder) => {
                while sent < BURST {
                    let count = responder.transmit(&mut target, |target, replies| {
                        let answered = answer(target, port, path, replies);
                        is_busy |= answered == Err(Refusal::Busy);
                        answered
                    });
                    if count == 0 {
                        break;
                    }
                    sent += count;
                }
                if let Some(requester) = requester {
                    requester.on_timer(now, &mut queue);
                    requester.complete(&mut queue);
                    while sent < BURST {
                        while requester.wants_request() {
                            match actor.next_request(qpn) {
                                NextRequest::Request(request) => requester.post(request),
                                NextRequest::Nothing => break,
                                NextRequest::Busy => {
                                    is_busy = true;
                                    break;
                                }
                            }
                        }
                        let count = requester.transmit(now, |packets| {
                            let sent = send(actor, qpn, port, path, packets);
                            is_busy |= sent == Err(Failure::Busy);
                            sent
                        });
                        requester.complete(&mut queue);
                        if count == 0 {
                            break;
                        }
                        sent += count;
                    }
                }
            }
            Halves::Unreliable(Some(requester), _) => {
                while sent < BURST {
                    requester.complete(&mut queue);
                    if requester.wants_request() {
                        match actor.next_request(qpn) {
                            NextRequest::Request(request) => requester.post(request),
                            NextRequest::Nothing => break,
                            NextRequest::Busy => {
                                is_busy = true;
                                break;
                            }
                        }
                    }
                    let count = requester.transmit(|packets| {
                        let sent = send(actor, qpn, port, path, packets);
                        is_busy |= sent == Err(Failure::Busy);
                        sent
                    });
                    requester.complete(&mut queue);
                    if count == 0 {
                        break;
                    }
                    sent += count;
                }
            }
            Halves::Unreliable(None, _) => {}
        }
        let qp = actor.arena.qp(qpn);
        if qp.is_some_and(|qp| qp.state.load(Acquire) == state::SQD) {
            // Whoever waits for the queue to drain is told when it has.
            actor.run_send_queue(qpn);
        }
        is_busy |= queue.is_busy || self.arriving.is_failing();
        self.retry_at = is_busy.then_some(now + BUSY_NS);
        sent >= BURST
    }
}

/// Sends packets of a request.
fn send(
    actor: Actor<'_>,
    qpn: u32,
    port: &Port,
    path: Path,
    packets: &[Outgoing],
) -> Result<(), Failure> {
    let Some(first) = packets.first().map(|packet| packet.payload) else { return Ok(()) };
    let parts = || packets.iter().map(|packet| (packet.headers, packet.payload.length as usize));
    port.send_all(&path, parts(), |payloads| {
        actor.fetch_payload(qpn, first.id, first.offset, payloads)
    })
    .unwrap_or(Err(Failure::Busy))?;
    are_sent(actor, qpn, path, parts());
    Ok(())
}

/// Sends packets of an answer to the peer.
fn answer(
    target: &mut RemoteTarget<'_, '_>,
    port: &Port,
    path: Path,
    replies: &[Reply],
) -> Result<(), Refusal> {
    let length = |reply: &Reply| reply.payload.map_or(0, |(_, length)| length as usize);
    let parts = || replies.iter().map(|reply| (reply.headers, length(reply)));
    let from = replies.first().and_then(|reply| reply.payload);
    port.send_all(&path, parts(), |payloads| match from {
        Some((from, _)) => target.read(from, payloads),
        None => Ok(()),
    })
    .unwrap_or(Err(Refusal::Busy))?;
    are_sent(target.actor, target.qpn, path, parts());
    Ok(())
}

/// Has packets pass by that were sent.
fn are_sent(
    actor: Actor<'_>,
    qpn: u32,
    path: Path,
    packets: impl Iterator<Item = (Headers, usize)>,
) {
    if !actor.is_observed() {
        return;
    }
    for (headers, length) in packets {
        actor.observe(|| {
            Event::Packet(LinkPacket {
                qpn,
                is_received: false,
                path: (path.own, path.peer),
                headers: &headers,
                length: length as u32,
                ignored: 0,
            })
        });
    }
}
