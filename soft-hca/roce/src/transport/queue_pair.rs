//! A connected queue pair: its two halves, in which order they are served, and when.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::attributes::Attributes;
use super::events::EventCounts;
use super::packet_sender::{Busy, PacketSender};
use super::request::{Failure, Outgoing, SendQueue, WorkRequest};
use super::requester::RcRequester;
use super::responder::{RcResponder, Response};
use super::target::{Refusal, Target};
use super::uc;
use crate::wire::opcode::Service;
use crate::wire::packet::Packet;

/// The time after which a busy target is tried again.
const BUSY_NS: u64 = 100_000;

/// A service whose queue pairs are not connected.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{0:?} queue pairs are not connected")]
#[non_exhaustive]
pub struct NotConnected(pub Service);

/// The states of a queue pair that the transport knows (IBTA volume 1, 10.3.1). A queue pair that
/// is in another one (Reset, Init) has no transport; whether a send queue is drained (SQD) is up to
/// [`SendQueue::next_request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Ready to receive.
    Rtr,
    /// Ready to send, and to receive.
    Rts,
    /// A request has failed here, or one of the peer's has: nothing more is sent or received.
    Error,
}

/// A queue pair of a reliable or unreliable connection.
///
/// The caller hands in packets ([`QueuePair::handle_packets`]) and calls [`QueuePair::poll`] after
/// that, when requests were posted, and at the [`QueuePair::deadline`]. What the queue pair wants of
/// the caller it asks for meanwhile: requests and their memory of a [`SendQueue`], receives and
/// remotely accessible memory of a [`Target`], packets to be sent of a [`PacketSender`].
#[derive(Debug, Serialize, Deserialize)]
pub struct QueuePair {
    pub(super) requester: Option<RequesterHalf>,
    pub(super) responder: ResponderHalf,
    /// Something was busy, and is tried again then.
    pub(super) retry_at: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum RequesterHalf {
    Reliable(RcRequester),
    Unreliable(uc::UcRequester),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ResponderHalf {
    Reliable(RcResponder),
    Unreliable(uc::UcResponder),
}

impl QueuePair {
    /// A queue pair that comes to RTR.
    ///
    /// # Errors
    ///
    /// [`NotConnected`] if the service is neither RC nor UC.
    pub fn new(service: Service, attributes: Attributes) -> Result<QueuePair, NotConnected> {
        let responder = match service {
            Service::Rc => ResponderHalf::Reliable(RcResponder::new(attributes)),
            Service::Uc => ResponderHalf::Unreliable(uc::UcResponder::new(attributes)),
            Service::Ud | Service::Cnp => return Err(NotConnected(service)),
        };
        Ok(QueuePair { requester: None, responder, retry_at: None })
    }

    /// It comes to RTS, or is modified there: of the attributes only `min_rnr_timer` can change
    /// again (IBTA volume 1, 11.2.5.2, table 96).
    pub fn modify_to_rts(&mut self, attributes: Attributes) {
        if let ResponderHalf::Reliable(responder) = &mut self.responder {
            responder.set_min_rnr_timer(attributes.min_rnr_timer);
        }
        self.requester.get_or_insert_with(|| match self.responder {
            ResponderHalf::Reliable(_) => RequesterHalf::Reliable(RcRequester::new(attributes)),
            ResponderHalf::Unreliable(_) => {
                RequesterHalf::Unreliable(uc::UcRequester::new(attributes))
            }
        });
    }

    /// Its state. An error shows here as soon as the transport finds it.
    pub fn state(&self) -> State {
        match &self.requester {
            _ if self.responder.has_failed() => State::Error,
            Some(requester) if requester.has_failed() => State::Error,
            Some(_) => State::Rts,
            None => State::Rtr,
        }
    }

    /// The service of its packets; [`QueuePair::handle_packets`] ignores those of another.
    pub fn service(&self) -> Service {
        match self.responder {
            ResponderHalf::Reliable(_) => Service::Rc,
            ResponderHalf::Unreliable(_) => Service::Uc,
        }
    }

    /// When [`QueuePair::poll`] is to be called at the latest.
    pub fn deadline(&self) -> Option<u64> {
        let transport = match &self.requester {
            Some(RequesterHalf::Reliable(requester)) => requester.deadline(),
            _ => None,
        };
        [transport, self.retry_at].into_iter().flatten().min()
    }

    /// Takes the counts of events since the last call.
    pub fn take_event_counts(&mut self) -> EventCounts {
        let mut counts = EventCounts::default();
        if let Some(RequesterHalf::Reliable(requester)) = &mut self.requester {
            counts.take(&mut requester.event_counts);
        }
        if let ResponderHalf::Reliable(responder) = &mut self.responder {
            counts.take(&mut responder.event_counts);
        }
        counts
    }

    /// Packets of the peer, in the order in which they came. Several at once are cheaper than one
    /// by one. What they call for is sent by the next [`QueuePair::poll`].
    pub fn handle_packets(
        &mut self,
        now_ns: u64,
        packets: &[Packet<'_>],
        queue: &mut impl SendQueue,
        target: &mut impl Target,
    ) {
        let kind = |packet: &Packet<'_>| {
            let headers = &packet.headers;
            (headers.service, headers.operation.is_response())
        };
        for run in packets.chunk_by(|a, b| kind(a) == kind(b)) {
            let (service, is_response) = kind(&run[0]);
            if service != self.service() {
                continue;
            }
            match (&mut self.responder, &mut self.requester) {
                (ResponderHalf::Reliable(_), Some(RequesterHalf::Reliable(requester)))
                    if is_response =>
                {
                    requester.on_packets(now_ns, run, queue);
                    if requester.has_finished_requests() {
                        self.retry_at = Some(now_ns + BUSY_NS);
                    }
                }
                (ResponderHalf::Reliable(_), _) if is_response => {}
                (ResponderHalf::Reliable(responder), _) => responder.on_packets(run, target),
                (ResponderHalf::Unreliable(responder), _) => responder.on_packets(run, target),
            }
        }
    }

    /// Does what the time asks for, sends responses and then requests, takes new requests from the
    /// send queue as long as they can be sent, and completes those that are done.
    ///
    /// Returns whether it stopped because it had sent `most` packets (or up to 63 more): then it is
    /// to be called again, after others have had their turn.
    pub fn poll(
        &mut self,
        now_ns: u64,
        most: usize,
        port: &mut impl PacketSender,
        queue: &mut impl SendQueue,
        target: &mut impl Target,
    ) -> bool {
        self.responder.retry_failure(target);
        let (mut sent, mut is_busy) = self.respond(most, port, target);
        if let Some(requester) = &mut self.requester {
            requester.on_timer(now_ns, queue);
            requester.complete(queue);
            while sent < most {
                while requester.wants_request() {
                    match queue.next_request() {
                        Ok(Some(request)) => requester.post(request),
                        Ok(None) => break,
                        Err(Busy) => {
                            is_busy = true;
                            break;
                        }
                    }
                }
                let count = requester.transmit(now_ns, |packets| {
                    let sent = send_requests(port, queue, packets);
                    is_busy |= sent == Err(Failure::Busy);
                    sent
                });
                requester.complete(queue);
                if count == 0 {
                    break;
                }
                sent += count;
            }
            is_busy |= requester.has_finished_requests();
        }
        is_busy |= self.responder.is_failure_pending();
        self.retry_at = is_busy.then_some(now_ns + BUSY_NS);
        sent >= most
    }

    /// Sends responses. How many packets, and whether some wait for the port or the memory.
    fn respond(
        &mut self,
        most: usize,
        port: &mut impl PacketSender,
        target: &mut impl Target,
    ) -> (usize, bool) {
        let (mut sent, mut is_busy) = (0, false);
        while sent < most {
            let count = self.responder.transmit(target, |target, responses| {
                let sent = send_responses(port, target, responses);
                is_busy |= sent == Err(Refusal::Busy);
                sent
            });
            if count == 0 {
                break;
            }
            sent += count;
        }
        (sent, is_busy)
    }

    /// Sends what waits to be sent, if some of it is the data of reads, up to `most` packets (or up to 63 more). To
    /// be called before packets are handled that came behind the reads: who finds what these bring may end the
    /// connection, and with it the memory is gone.
    pub fn send_data(
        &mut self,
        most: usize,
        port: &mut impl PacketSender,
        target: &mut impl Target,
    ) {
        if matches!(&self.responder, ResponderHalf::Reliable(responder) if responder.owes_data()) {
            self.respond(most, port, target);
        }
    }

    /// Whether [`QueuePair::answer`] would send something.
    pub fn can_answer(&self) -> bool {
        match &self.responder {
            ResponderHalf::Reliable(responder) => responder.can_answer(),
            ResponderHalf::Unreliable(_) => false,
        }
    }

    /// Sends acknowledgements that are due, as the last thing that it does: its requests and the memory
    /// of reads may be gone.
    pub fn answer(&mut self, port: &mut impl PacketSender, target: &mut impl Target) {
        let ResponderHalf::Reliable(responder) = &mut self.responder else { return };
        let mut send =
            |target: &mut _, responses: &[Response]| send_responses(port, target, responses);
        while responder.can_answer() && responder.transmit(target, &mut send) > 0 {}
    }
}

#[cfg(any(test, fuzzing))]
impl QueuePair {
    /// The sending half, if it is a reliable connection's and there is one.
    pub(crate) fn reliable_requester(&self) -> Option<&RcRequester> {
        match &self.requester {
            Some(RequesterHalf::Reliable(requester)) => Some(requester),
            _ => None,
        }
    }

    /// The connection's attributes.
    pub(crate) fn attributes(&self) -> &Attributes {
        match &self.responder {
            ResponderHalf::Reliable(responder) => responder.attributes(),
            ResponderHalf::Unreliable(responder) => responder.attributes(),
        }
    }

    /// The receiving half, if it is a reliable connection's.
    pub(crate) fn reliable_responder(&self) -> Option<&RcResponder> {
        match &self.responder {
            ResponderHalf::Reliable(responder) => Some(responder),
            ResponderHalf::Unreliable(_) => None,
        }
    }
}

/// Sends packets of one request.
fn send_requests(
    port: &mut impl PacketSender,
    queue: &mut impl SendQueue,
    packets: &[Outgoing],
) -> Result<(), Failure> {
    let Some(first) = packets.first().map(|packet| packet.payload) else { return Ok(()) };
    let parts = packets.iter().map(|packet| (packet.headers, packet.payload.length as usize));
    port.send(parts, |payloads| queue.gather(first.id, first.offset, payloads))
}

/// Sends packets that respond to one request.
fn send_responses(
    port: &mut impl PacketSender,
    target: &mut impl Target,
    responses: &[Response],
) -> Result<(), Refusal> {
    let length = |response: &Response| response.payload.map_or(0, |(_, length)| length as usize);
    let parts = responses.iter().map(|response| (response.headers, length(response)));
    let from = responses.first().and_then(|response| response.payload);
    port.send(parts, |payloads| match from {
        Some((remote, _)) => target.read(remote, payloads),
        None => Ok(()),
    })
}

impl RequesterHalf {
    fn has_failed(&self) -> bool {
        match self {
            RequesterHalf::Reliable(half) => half.has_failed(),
            RequesterHalf::Unreliable(half) => half.has_failed(),
        }
    }

    fn wants_request(&self) -> bool {
        match self {
            RequesterHalf::Reliable(half) => half.wants_request(),
            RequesterHalf::Unreliable(half) => half.wants_request(),
        }
    }

    fn has_finished_requests(&self) -> bool {
        match self {
            RequesterHalf::Reliable(half) => half.has_finished_requests(),
            RequesterHalf::Unreliable(half) => half.has_finished_requests(),
        }
    }

    fn post(&mut self, request: WorkRequest) {
        match self {
            RequesterHalf::Reliable(half) => half.post(request),
            RequesterHalf::Unreliable(half) => half.post(request),
        }
    }

    fn on_timer(&mut self, now_ns: u64, queue: &mut impl SendQueue) {
        if let RequesterHalf::Reliable(half) = self {
            half.on_timer(now_ns, queue);
        }
    }

    fn transmit(
        &mut self,
        now_ns: u64,
        emit: impl FnOnce(&[Outgoing]) -> Result<(), Failure>,
    ) -> usize {
        match self {
            RequesterHalf::Reliable(half) => half.transmit(now_ns, emit),
            RequesterHalf::Unreliable(half) => half.transmit(emit),
        }
    }

    fn complete(&mut self, queue: &mut impl SendQueue) {
        match self {
            RequesterHalf::Reliable(half) => half.complete(queue),
            RequesterHalf::Unreliable(half) => half.complete(queue),
        }
    }
}

impl ResponderHalf {
    fn has_failed(&self) -> bool {
        match self {
            ResponderHalf::Reliable(half) => half.has_failed(),
            ResponderHalf::Unreliable(half) => half.has_failed(),
        }
    }

    fn retry_failure(&mut self, target: &mut impl Target) {
        match self {
            ResponderHalf::Reliable(half) => half.error.retry(target),
            ResponderHalf::Unreliable(half) => half.error.retry(target),
        }
    }

    fn is_failure_pending(&self) -> bool {
        match self {
            ResponderHalf::Reliable(half) => half.error.is_pending(),
            ResponderHalf::Unreliable(half) => half.error.is_pending(),
        }
    }

    fn transmit<T: Target>(
        &mut self,
        target: &mut T,
        emit: impl FnOnce(&mut T, &[Response]) -> Result<(), Refusal>,
    ) -> usize {
        match self {
            ResponderHalf::Reliable(half) => half.transmit(target, emit),
            ResponderHalf::Unreliable(_) => 0,
        }
    }
}
