//! The requester of a reliable connection: requests out, responses in.
//!
//! Requests get their PSNs when they are posted; a read takes as many as it has response packets.
//! PSNs are counted here with 64 bits, of which a packet carries the low 24, from the first request
//! on. Three of them say how far the requester is:
//!
//! ```text
//!   acknowledged | unacknowledged       | not sent, or to be retransmitted | not posted
//! ---------------+----------------------+----------------------------------+-----------
//!         `oldest_unacked`         `next_psn`                        `posted_end`
//! ```
//!
//! To retransmit is to set `next_psn` to `oldest_unacked`: go-back-N, with packets segmented anew
//! from the requests. A probe is a copy of the oldest unacknowledged packet, and changes neither.
//!
//! Sources: IBTA volume 1, 9.7.3 to 9.7.7 and 9.9.2; `rxe_req.c`, `rxe_comp.c`.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use arrayvec::ArrayVec;

use super::attributes::Attributes;
use super::events::{Event, EventCounts};
use super::message::{RUN, payloads};
use super::probe::{Probe, Silence};
use super::request::{Failure, MAX_MESSAGE, Opcode, Outgoing, SendQueue, Status, WorkRequest};
use super::timers::rnr_wait_ns;
use super::window::Window;
use crate::wire::bth::Psn;
use crate::wire::headers::{Aeth, NakCode, Syndrome};
use crate::wire::opcode::{Operation, Service};
use crate::wire::packet::Packet;

pub use super::window::WINDOW;

/// Packets after which one has AckReq in mid-message at the latest.
const MAX_SINCE_ACK_REQ: u32 = 64;

/// The state of a reliable connection's requester.
#[derive(Debug, Serialize, Deserialize)]
pub struct RcRequester {
    attributes: Attributes,
    window: Window,
    /// Requests that are not complete.
    requests: VecDeque<Posted>,
    /// Requests at the front all of whose packets are acknowledged: only their completions are
    /// missing.
    acked: usize,
    /// The request that `next_psn` belongs to.
    cursor: usize,
    /// The oldest unacknowledged PSN.
    oldest_unacked: u64,
    /// The next PSN to be sent.
    next_psn: u64,
    /// One more than the highest PSN that was ever sent.
    sent_end: u64,
    /// One more than the last PSN of the last request.
    posted_end: u64,
    /// The ends of the reads and atomics between `oldest_unacked` and `next_psn`.
    responses: VecDeque<u64>,
    /// Packets since the last one with AckReq.
    since_ack_req: u32,
    timer: Timer,
    /// When the oldest unacknowledged packet is sent once more before the timeout.
    probe: Probe,
    silence: Silence,
    /// The PSN that was probed, if packets behind it were unacknowledged and none is acknowledged
    /// since.
    probed: Option<u64>,
    /// Timeouts that are left before the oldest request fails.
    retries: u8,
    /// RNR NAKs that are left before that.
    rnr_retries: u8,
    /// Retransmission has begun at `oldest_unacked`. Responses to what was in flight before may ask
    /// for it again, and are ignored.
    retransmitting: bool,
    /// The first PSN of a request that fails when it is the oldest one, and its status.
    stop: Option<(u64, Status)>,
    pub(super) event_counts: EventCounts,
}

#[derive(Debug, Serialize, Deserialize)]
struct Posted {
    request: WorkRequest,
    first: u64,
    packets: u32,
}

impl Posted {
    fn end(&self) -> u64 {
        self.first + u64::from(self.packets)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Timer {
    Off,
    /// The transport timer: then the oldest unacknowledged packet counts as lost.
    Ack(u64),
    /// The RNR wait: then the receiver may be ready.
    RnrWait(u64),
}

impl RcRequester {
    /// A requester that has sent nothing.
    pub fn new(attributes: Attributes) -> RcRequester {
        RcRequester {
            attributes,
            window: Window::first(attributes.mtu),
            requests: VecDeque::with_capacity(WINDOW as usize),
            acked: 0,
            cursor: 0,
            oldest_unacked: 0,
            next_psn: 0,
            sent_end: 0,
            posted_end: 0,
            responses: VecDeque::new(),
            since_ack_req: 0,
            timer: Timer::Off,
            probe: Probe::Off,
            silence: Silence::default(),
            probed: None,
            retries: attributes.retry_cnt,
            rnr_retries: attributes.rnr_retry,
            retransmitting: false,
            stop: None,
            event_counts: EventCounts::default(),
        }
    }

    /// Whether the next request is to be posted: all that was posted has been sent, and there is room.
    pub fn wants_request(&self) -> bool {
        self.stop.is_none()
            && self.next_psn == self.posted_end
            && self.requests.len() < WINDOW as usize
    }

    /// Whether everything posted is complete.
    #[cfg(any(test, fuzzing))]
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether a request has failed: the queue pair is in the error state, nothing is sent, and what
    /// comes is ignored.
    pub fn has_failed(&self) -> bool {
        self.is_stopped()
    }

    /// Whether [`RcRequester::transmit`] would build a packet now.
    #[cfg(test)]
    pub fn can_transmit(&self) -> bool {
        self.packet(self.next_psn, self.since_ack_req).is_some()
            || self.probe.is_due() && self.oldest_packet().is_some()
    }

    /// Posts a request. One that cannot be sent at all fails when it is the oldest.
    pub fn post(&mut self, request: WorkRequest) {
        if self.has_failed() {
            return;
        }
        let first = self.posted_end;
        let packets = request.packets(self.attributes.mtu);
        self.requests.push_back(Posted { request, first, packets });
        self.posted_end += u64::from(packets);
        // The range of a flush is no message: the responder checks its length.
        let is_message = !matches!(request.opcode, Opcode::Flush(..));
        if request.length > MAX_MESSAGE && is_message {
            self.stop_at(first, Status::LocalLength);
        } else if request.opcode.has_response() && self.attributes.max_rd_atomic == 0 {
            self.stop_at(first, Status::LocalOperation);
        }
    }

    /// Builds the next packets, as many of one request as may be sent now. `emit` gathers their
    /// payload and sends them, all or none. After [`Failure::Busy`] it is called again later; after
    /// [`Failure::Failed`] the request fails when those before it are complete.
    ///
    /// Returns how many packets were sent.
    pub fn transmit(
        &mut self,
        now_ns: u64,
        emit: impl FnOnce(&[Outgoing]) -> Result<(), Failure>,
    ) -> usize {
        if self.probe.is_due() {
            return self.transmit_probe(now_ns, emit);
        }
        let Some((packet, numbers)) = self.packet(self.next_psn, self.since_ack_req) else {
            return 0;
        };
        let posted = &self.requests[self.cursor];
        let (has_response, end) = (posted.request.opcode.has_response(), posted.end());
        let counted = |packet: &Outgoing, since_ack_req| {
            if packet.headers.ack_req { 0 } else { since_ack_req + 1 }
        };
        let mut packets = ArrayVec::<_, RUN>::new();
        let mut since_ack_req = counted(&packet, self.since_ack_req);
        let mut next = self.next_psn + u64::from(numbers);
        packets.push(packet);
        while !has_response && next < end && !packets.is_full() {
            let Some((packet, _)) = self.packet(next, since_ack_req) else { break };
            since_ack_req = counted(&packet, since_ack_req);
            next += 1;
            packets.push(packet);
        }
        match emit(&packets) {
            Ok(()) => {}
            Err(Failure::Busy) => return 0,
            Err(Failure::Failed(status)) => {
                self.stop_at(self.requests[self.cursor].first, status);
                return 0;
            }
        }
        self.since_ack_req = since_ack_req;
        self.next_psn = next;
        self.sent_end = self.sent_end.max(next);
        if has_response {
            self.responses.push_back(next);
        }
        if next == end {
            self.cursor += 1;
        }
        if self.timer == Timer::Off {
            self.start_ack_timer(now_ns);
        }
        packets.len()
    }

    fn transmit_probe(
        &mut self,
        now_ns: u64,
        emit: impl FnOnce(&[Outgoing]) -> Result<(), Failure>,
    ) -> usize {
        let Some((packet, numbers)) = self.oldest_packet() else { return 0 };
        match emit(&[packet]) {
            Ok(()) => {}
            Err(Failure::Busy) => return 0,
            Err(Failure::Failed(status)) => {
                self.fail(status);
                return 0;
            }
        }
        self.event_counts.count(Event::Retried);
        self.probe.sent(now_ns);
        let is_followed = self.next_psn > self.oldest_unacked + u64::from(numbers);
        self.probed = is_followed.then_some(self.oldest_unacked);
        1
    }

    /// The oldest unacknowledged packet, as it is retransmitted, and how many PSNs it takes.
    fn oldest_packet(&self) -> Option<(Outgoing, u32)> {
        if self.oldest_unacked == self.next_psn || self.is_stopped() {
            return None;
        }
        let posted = self.requests.get(self.acked)?;
        let before = (self.oldest_unacked - posted.first) as u32;
        let numbers = self.numbers(posted, before);
        let psn = self.psn(self.oldest_unacked);
        let mut packet = posted.request.packet(Service::Rc, &self.attributes, psn, before, numbers);
        packet.headers.ack_req = true;
        Some((packet, numbers))
    }

    /// The packet with the PSN `next`, of the request at the cursor, and how many PSNs it takes. There
    /// are `since_ack_req` packets since the last one with AckReq.
    fn packet(&self, next: u64, since_ack_req: u32) -> Option<(Outgoing, u32)> {
        if matches!(self.timer, Timer::RnrWait(_)) {
            return None;
        }
        let posted = self.requests.get(self.cursor)?;
        let request = &posted.request;
        if self.stop.is_some_and(|(first, _)| first <= posted.first) || self.is_stopped() {
            return None;
        }
        if request.fence && next == posted.first && !self.responses.is_empty() {
            return None;
        }
        if request.opcode.has_response()
            && self.responses.len() >= self.attributes.max_rd_atomic.into()
        {
            return None;
        }
        let before = (next - posted.first) as u32;
        let numbers = self.numbers(posted, before);
        let in_flight = next + u64::from(numbers) - self.oldest_unacked;
        if in_flight > self.window.packets().max(numbers).into() {
            return None;
        }
        let psn = self.psn(next);
        let mut packet = request.packet(Service::Rc, &self.attributes, psn, before, numbers);
        // In mid-message, so that the window moves on before it is used up.
        packet.headers.ack_req |=
            since_ack_req + 1 >= (self.window.packets() / 4).min(MAX_SINCE_ACK_REQ);
        Some((packet, numbers))
    }

    /// How many PSNs the packet takes that follows the first `before` PSNs of a request.
    fn numbers(&self, posted: &Posted, before: u32) -> u32 {
        // The peer may send read responses without a pause, so they have to fit our socket's buffer.
        let most = Window::first(self.attributes.mtu).packets() / 2;
        match posted.request.opcode {
            // A read request that is retransmitted may not reach beyond the end of the original
            // one, which the responder knows.
            Opcode::Read(_) => (most - before % most).min(posted.packets - before),
            _ => 1,
        }
    }

    /// Packets for which [`Operation::is_response`] holds, in the order in which they came. Those
    /// whose PSN is not that of an unacknowledged packet are ignored.
    pub fn on_packets(
        &mut self,
        now_ns: u64,
        mut packets: &[Packet<'_>],
        queue: &mut impl SendQueue,
    ) {
        while !packets.is_empty() {
            let handled = self.on_run(now_ns, packets, queue);
            packets = &packets[handled..];
        }
        self.complete(queue);
    }

    /// Handles packets at the front. Returns how many.
    fn on_run(&mut self, now_ns: u64, packets: &[Packet<'_>], queue: &mut impl SendQueue) -> usize {
        let packet = &packets[0];
        let behind = packet.headers.psn.distance(self.psn(self.oldest_unacked));
        let Ok(behind) = u64::try_from(behind) else { return 1 };
        let at = self.oldest_unacked + behind;
        if at >= self.sent_end || self.is_stopped() {
            return 1;
        }
        match packet.headers.operation {
            Operation::Acknowledge(aeth) => self.on_acknowledge(now_ns, at, aeth.syndrome),
            Operation::ReadResponseMiddle
            | Operation::ReadResponseFirst(Aeth { syndrome: Syndrome::Ack { .. }, .. })
            | Operation::ReadResponseLast(Aeth { syndrome: Syndrome::Ack { .. }, .. })
            | Operation::ReadResponseOnly(Aeth { syndrome: Syndrome::Ack { .. }, .. }) => {
                return self.on_read(now_ns, at, packets, queue);
            }
            Operation::AtomicAcknowledge(Aeth { syndrome: Syndrome::Ack { .. }, .. }, original) => {
                self.on_atomic(now_ns, at, original, queue);
            }
            _ => {}
        }
        1
    }

    fn on_acknowledge(&mut self, now_ns: u64, at: u64, syndrome: Syndrome) {
        let waiting = matches!(self.timer, Timer::RnrWait(_));
        match syndrome {
            Syndrome::Ack { .. } => {
                let was_probe = self.probed == Some(at);
                // Had the packets behind the probe arrived, this ACK would cover them.
                if self.acknowledge(now_ns, at + 1)
                    && was_probe
                    && self.oldest_unacked != self.next_psn
                {
                    self.nak_received();
                }
            }
            // The kernel's responder sends one for packets in flight behind the one that it had no
            // receive work request for.
            Syndrome::Nak(NakCode::PsnSequence) if waiting => {}
            Syndrome::RnrNak { .. } if waiting => {}
            Syndrome::Nak(NakCode::PsnSequence) => {
                self.event_counts.count(Event::SequenceErrorReceived);
                if self.acknowledge(now_ns, at) {
                    self.nak_received();
                }
            }
            Syndrome::RnrNak { timer } => {
                self.event_counts.count(Event::RnrReceived);
                if self.acknowledge(now_ns, at) {
                    self.rnr_wait(now_ns, timer);
                }
            }
            Syndrome::Nak(code) => {
                if self.acknowledge(now_ns, at) {
                    self.fail(match code {
                        NakCode::RemoteAccess => Status::RemoteAccess,
                        NakCode::RemoteOperational => Status::RemoteOperation,
                        _ => Status::RemoteInvalidRequest,
                    });
                }
            }
            Syndrome::Reserved(_) => {}
        }
    }

    /// The first of these packets is the read response with the PSN `at`. Returns how many are
    /// handled with it.
    fn on_read(
        &mut self,
        now_ns: u64,
        at: u64,
        packets: &[Packet<'_>],
        queue: &mut impl SendQueue,
    ) -> usize {
        if !self.acknowledge(now_ns, at) {
            return 1;
        }
        let Posted { request, first, .. } = self.requests[self.acked];
        let mtu = self.attributes.mtu.bytes();
        let offset = (at - first) as u32 * mtu;
        let expected = |number: usize| match request.opcode {
            Opcode::Read(_) => {
                request.length.checked_sub(offset + number as u32 * mtu).map(|rest| rest.min(mtu))
            }
            Opcode::AtomicWrite(_) | Opcode::Flush(..) => Some(0),
            _ => None,
        };
        let has_right_length =
            |number: usize| expected(number) == Some(packets[number].payload.len() as u32);
        if !has_right_length(0) {
            self.fail(Status::BadResponse);
            return 1;
        }
        // Consecutive responses to the same request go with it.
        let follows = |&number: &usize| {
            let operation = packets[number].headers.operation;
            let numbers = packets[0].headers.psn + number as u32;
            packets[number].headers.psn == numbers
                && at + (number as u64) < self.sent_end
                && matches!(
                    operation,
                    Operation::ReadResponseMiddle
                        | Operation::ReadResponseLast(Aeth { syndrome: Syndrome::Ack { .. }, .. })
                )
                && packets[number].payload.len() as u32 > 0
                && has_right_length(number)
        };
        let count = 1 + (1..packets.len().min(RUN)).take_while(follows).count();
        payloads(&packets[..count], |parts| {
            self.scatter(now_ns, request.id, offset, (parts, count as u64), queue);
        });
        count
    }

    fn on_atomic(&mut self, now_ns: u64, at: u64, value: u64, queue: &mut impl SendQueue) {
        if !self.acknowledge(now_ns, at) {
            return;
        }
        let request = self.requests[self.acked].request;
        match request.opcode {
            Opcode::CompareSwap { .. } | Opcode::FetchAdd { .. } => {
                let value = value.to_ne_bytes();
                self.scatter(now_ns, request.id, 0, (&[&value], 1), queue);
            }
            _ => self.fail(Status::BadResponse),
        }
    }

    /// Responses with the payloads `parts` acknowledge the `count` oldest PSNs.
    fn scatter(
        &mut self,
        now_ns: u64,
        id: u64,
        offset: u32,
        (parts, count): (&[&[u8]], u64),
        queue: &mut impl SendQueue,
    ) {
        let is_empty = parts.iter().all(|part| part.is_empty());
        let scattered = if is_empty { Ok(()) } else { queue.scatter(id, offset, parts) };
        match scattered {
            Ok(()) => self.advance(now_ns, self.oldest_unacked + count),
            Err(Failure::Busy) => {}
            Err(Failure::Failed(status)) => self.fail(status),
        }
    }

    /// The responder has executed everything before `to`. Returns whether all of it is acknowledged;
    /// a read or atomic whose response is missing is not, and is retransmitted.
    fn acknowledge(&mut self, now_ns: u64, to: u64) -> bool {
        let mut oldest = self.oldest_unacked;
        for posted in self.requests.range(self.acked..) {
            if oldest == to || posted.request.opcode.has_response() {
                break;
            }
            oldest = posted.end().min(to);
        }
        if oldest != self.oldest_unacked {
            self.advance(now_ns, oldest);
        }
        if oldest != to {
            self.nak_received();
        }
        oldest == to
    }

    /// The packets before `oldest` are acknowledged.
    fn advance(&mut self, now_ns: u64, oldest: u64) {
        self.window.grow((oldest - self.oldest_unacked) as u32);
        self.oldest_unacked = oldest;
        while self.requests.get(self.acked).is_some_and(|posted| posted.end() <= oldest) {
            self.acked += 1;
        }
        self.next_psn = self.next_psn.max(oldest);
        self.cursor = self.cursor.max(self.acked);
        while self.responses.front().is_some_and(|&end| end <= oldest) {
            self.responses.pop_front();
        }
        self.retries = self.attributes.retry_cnt;
        self.rnr_retries = self.attributes.rnr_retry;
        self.retransmitting = false;
        self.probed = None;
        if matches!(self.timer, Timer::Ack(_)) {
            self.silence.ends(now_ns);
        }
        // This ends an RNR wait, too: a duplicate of the packet has found a receive work request.
        self.start_ack_timer(now_ns);
    }

    fn start_ack_timer(&mut self, now_ns: u64) {
        let Attributes { ack, retry_cnt, .. } = self.attributes;
        let missed = retry_cnt - self.retries;
        self.silence.begins(now_ns);
        (self.timer, self.probe) = match ack.wait_ns(missed, self.retries) {
            Some(timeout) if self.oldest_unacked != self.next_psn && !self.is_stopped() => {
                // After a timeout it was not just one packet that was lost.
                let probe = match missed {
                    0 => Probe::begin(now_ns, timeout, self.silence),
                    _ => Probe::Off,
                };
                (Timer::Ack(now_ns + timeout), probe)
            }
            _ => (Timer::Off, Probe::Off),
        };
    }

    /// The peer says that the oldest packet, or its response, was lost. Responses to what was in
    /// flight before the retransmission say so again; they count only after progress or a timeout.
    fn nak_received(&mut self) {
        if !self.retransmitting && !matches!(self.timer, Timer::RnrWait(_)) {
            self.retransmitting = true;
            self.event_counts.count(Event::Retried);
            self.window.shrink();
            self.retransmit();
        }
    }

    /// No response has come in time. Only this uses up `retry_cnt`: a peer that sends NAKs is alive.
    fn time_out(&mut self) {
        self.retransmitting = false;
        match self.retries.checked_sub(1) {
            Some(retries) => {
                self.retries = retries;
                self.event_counts.count(Event::Retried);
                self.window.shrink();
                self.retransmit();
            }
            None => {
                self.event_counts.count(Event::RetriesExceeded);
                self.fail(Status::RetryExceeded);
            }
        }
    }

    fn rnr_wait(&mut self, now_ns: u64, code: u8) {
        /// The `rnr_retry` that stands for no limit.
        const INFINITE: u8 = 7;
        if self.attributes.rnr_retry != INFINITE {
            match self.rnr_retries.checked_sub(1) {
                Some(retries) => self.rnr_retries = retries,
                None => {
                    self.event_counts.count(Event::RnrRetriesExceeded);
                    return self.fail(Status::RnrRetryExceeded);
                }
            }
        }
        self.retries = self.attributes.retry_cnt;
        self.retransmit();
        self.timer = Timer::RnrWait(now_ns + rnr_wait_ns(code));
    }

    fn retransmit(&mut self) {
        self.next_psn = self.oldest_unacked;
        self.cursor = self.acked;
        self.responses.clear();
        self.stop_timers();
    }

    fn stop_timers(&mut self) {
        self.timer = Timer::Off;
        self.probe = Probe::Off;
        self.probed = None;
    }

    /// When [`RcRequester::on_timer`] is to be called at the latest.
    pub fn deadline(&self) -> Option<u64> {
        match self.timer {
            Timer::Off => None,
            Timer::Ack(at) => Some(self.probe.deadline().map_or(at, |probe| probe.min(at))),
            Timer::RnrWait(at) => Some(at),
        }
    }

    /// Handles timers that have expired; none has before [`RcRequester::deadline`].
    pub fn on_timer(&mut self, now_ns: u64, queue: &mut impl SendQueue) {
        match self.timer {
            Timer::Ack(at) if at <= now_ns => self.time_out(),
            Timer::Ack(_) => return self.probe.on_timer(now_ns),
            Timer::RnrWait(at) if at <= now_ns => {
                self.retransmitting = false;
                self.timer = Timer::Off;
            }
            _ => return,
        }
        self.complete(queue);
    }

    /// Completes requests that are acknowledged or have failed. Only needed after
    /// [`RcRequester::post`] and [`RcRequester::transmit`], which find requests that cannot be
    /// sent, and when the queue was busy before.
    pub fn complete(&mut self, queue: &mut impl SendQueue) {
        while self.acked > 0 {
            if queue.complete(self.requests[0].request.id, Status::Success).is_err() {
                return;
            }
            self.requests.pop_front();
            self.acked -= 1;
            self.cursor -= 1;
        }
        let (Some((_, status)), true) = (self.stop, self.is_stopped()) else { return };
        let first = self.requests.front();
        if first.is_some_and(|posted| queue.complete(posted.request.id, status).is_ok()) {
            self.requests.clear();
            self.responses.clear();
            self.cursor = 0;
            self.stop_timers();
        }
    }

    /// The oldest request fails.
    fn fail(&mut self, status: Status) {
        self.stop_at(self.requests[self.acked].first, status);
    }

    /// The request whose first PSN is `first` fails when it is the oldest one.
    fn stop_at(&mut self, first: u64, status: Status) {
        if self.stop.is_none_or(|(earlier, _)| first < earlier) {
            self.stop = Some((first, status));
        }
        if self.is_stopped() {
            self.stop_timers();
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|(first, _)| first <= self.oldest_unacked)
    }

    /// Whether [`RcRequester::complete`] has something to do.
    pub fn has_finished_requests(&self) -> bool {
        self.acked > 0 || self.is_stopped() && !self.requests.is_empty()
    }

    /// Whether a requester can be in this state, which somebody else has made up or kept.
    pub(super) fn is_possible(&self) -> bool {
        /// No clock and no connection gets so far.
        const FAR: u64 = 1 << 62;
        let Attributes { mtu, retry_cnt, rnr_retry, max_rd_atomic, .. } = self.attributes;
        let count = self.requests.len();
        let mut end = self.requests.front().map_or(self.posted_end, |posted| posted.first);
        let follow = self.requests.iter().all(|Posted { request, first, packets }| {
            let follows = *first == end && *packets == request.packets(mtu);
            end = first.saturating_add(u64::from(*packets));
            follows
        });
        // Where a number lies among the requests: in the one with this index, or behind all.
        let is_in = |number: u64, index: usize| match self.requests.get(index) {
            Some(posted) => (posted.first..posted.end()).contains(&number),
            None => index == count && number == self.posted_end,
        };
        // A failed request has taken all others with it.
        let has_ended = self.is_stopped() && count == 0 && self.cursor == 0;
        let times = match self.timer {
            Timer::Off => 0,
            Timer::Ack(at) | Timer::RnrWait(at) => at,
        };
        let is_within = is_in(self.oldest_unacked, self.acked) && is_in(self.next_psn, self.cursor);
        self.posted_end < FAR
            && follow
            && end == self.posted_end
            && self.acked <= self.cursor
            && (is_within || has_ended)
            && self.oldest_unacked <= self.next_psn
            && (self.next_psn..=self.posted_end).contains(&self.sent_end)
            && count <= WINDOW as usize
            && self.responses.len() <= max_rd_atomic.into()
            && self.since_ack_req < u32::from(u16::MAX)
            && self.retries <= retry_cnt
            && self.rnr_retries <= rnr_retry
            && times < FAR
            && self.probe.is_possible()
            && self.silence.is_possible()
            && self.window.is_possible(mtu)
    }

    /// Requests that are kept.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn kept(&self) -> usize {
        self.requests.len().max(self.responses.len())
    }

    fn psn(&self, number: u64) -> Psn {
        self.attributes.sq_psn + (number & 0xff_ffff) as u32
    }
}
