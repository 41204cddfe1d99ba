//! The sending half of a reliable connection: requests out, answers in.
//!
//! Requests get their packet sequence numbers when they are posted; a read takes as many as its
//! answer has packets. Three numbers that only grow (the wire carries their low 24 bits) say how
//! far it is:
//!
//! ```text
//!   done      | unacknowledged      | not sent, or to be sent again | not posted
//! ------------+---------------------+-------------------------------+-----------
//!          `oldest`              `next`                         `posted`
//! ```
//!
//! Going back is `next = oldest`, and nothing else: the packets are cut anew from the requests. A
//! probe is a copy of the oldest packet, and changes none of them.
//!
//! Sources: IBTA volume 1, 9.7.3 to 9.7.7 and 9.9.2; `rxe_req.c`, `rxe_comp.c`.

use std::collections::VecDeque;

use arrayvec::ArrayVec;

use super::attributes::{Attributes, Mtu};
use super::message::{RUN, payloads};
use super::probe::Probe;
use super::request::{Failure, MAX_MESSAGE, Opcode, Outgoing, SendQueue, Status, WorkRequest};
use super::timers::{answer_wait_ns, rnr_wait_ns};
use crate::wire::bth::Psn;
use crate::wire::headers::{Aeth, NakCode, Syndrome};
use crate::wire::opcode::{Operation, Service};
use crate::wire::packet::Packet;

/// Requests that are kept, and packets that may be unacknowledged before it is known that the peer
/// takes more.
pub const WINDOW: u32 = 64;

/// Bytes that may be unacknowledged then. With [`WINDOW`] it is what a socket's default buffer holds:
/// 92 packets of 1024 bytes, or 25 of 4096, and twice as much if it is as large as it usually may be.
const WINDOW_BYTES: u32 = 128 << 10;

/// How much larger the window may become, packets and bytes. It grows as long as nothing is lost,
/// and becomes half of what it was by a loss (as RFC 5681 has it).
const WINDOW_GROWTH: u32 = 8;

/// The smallest window.
const LEAST_WINDOW: u32 = 8;

/// Packets after which an acknowledgement is asked for in mid-message at the latest.
const MOST_UNASKED: u32 = 64;

/// The state of a reliable connection's requester.
#[derive(Debug)]
pub struct Requester {
    attributes: Attributes,
    /// Packets that may be unacknowledged.
    window: u32,
    /// Above that the window grows slowly.
    threshold: u32,
    /// Packets that were acknowledged since it has grown slowly.
    credit: u32,
    /// Requests that are not complete; the first `done` of them only wait for room.
    requests: VecDeque<Posted>,
    /// Requests at the front all of whose packets are acknowledged.
    done: usize,
    /// The request that `next` belongs to.
    cursor: usize,
    /// The oldest packet without an answer.
    oldest: u64,
    /// The packet to be sent next.
    next: u64,
    /// Behind the last packet that was ever sent.
    sent: u64,
    /// Behind the last packet of the last request.
    posted: u64,
    /// The ends of the reads and atomics between `oldest` and `next`.
    responses: VecDeque<u64>,
    /// Packets since the last that asked for an acknowledgement.
    unasked: u32,
    timer: Timer,
    /// The oldest packet once more, before the time is over.
    probe: Probe,
    /// The packet that was sent so, if others were unanswered behind it and none is answered since.
    probed: Option<u64>,
    /// Attempts that are left before the oldest packet fails.
    retries: u8,
    rnr_retries: u8,
    /// We went back to `oldest` already, and what was on its way before still asks us to.
    went_back: bool,
    /// The packet before which everything ends, and why.
    stop: Option<(u64, Status)>,
}

/// The window of a connection that has sent nothing.
fn first_window(mtu: Mtu) -> u32 {
    WINDOW.min(WINDOW_BYTES / mtu.bytes())
}

#[derive(Debug)]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Off,
    /// Until the oldest packet counts as lost.
    Answer(u64),
    /// Until the receiver may be ready.
    ReceiverNotReady(u64),
}

impl Requester {
    /// A requester that has sent nothing.
    pub fn new(attributes: Attributes) -> Requester {
        Requester {
            attributes,
            window: first_window(attributes.mtu),
            threshold: u32::MAX,
            credit: 0,
            requests: VecDeque::with_capacity(WINDOW as usize),
            done: 0,
            cursor: 0,
            oldest: 0,
            next: 0,
            sent: 0,
            posted: 0,
            responses: VecDeque::new(),
            unasked: 0,
            timer: Timer::Off,
            probe: Probe::Off,
            probed: None,
            retries: attributes.retry_cnt,
            rnr_retries: attributes.rnr_retry,
            went_back: false,
            stop: None,
        }
    }

    /// Whether it makes sense to post: all that was posted has been sent, and there is room. A
    /// caller with a queue of his own posts only then.
    pub fn wants_request(&self) -> bool {
        self.stop.is_none() && self.next == self.posted && self.requests.len() < WINDOW as usize
    }

    /// Whether everything posted is complete, so that a local operation behind it may begin.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether a request has failed: the queue pair is in error, nothing is sent and nothing heard.
    pub fn has_failed(&self) -> bool {
        self.is_stopped()
    }

    /// Whether [`Requester::transmit`] would build a packet now.
    pub fn can_transmit(&self) -> bool {
        self.packet(self.next, self.unasked).is_some()
            || self.probe.is_due() && self.oldest_packet().is_some()
    }

    /// Puts a request behind the others. One that cannot be sent at all fails when it is its turn.
    pub fn post(&mut self, request: WorkRequest) {
        if self.has_failed() {
            return;
        }
        let first = self.posted;
        let packets = request.packets(self.attributes.mtu);
        self.requests.push_back(Posted { request, first, packets });
        self.posted += u64::from(packets);
        // What a flush names is no message: the responder judges its length.
        let is_message = !matches!(request.opcode, Opcode::Flush(..));
        if request.length > MAX_MESSAGE && is_message {
            self.stop_at(first, Status::LocalLength);
        } else if request.opcode.has_response() && self.attributes.max_rd_atomic == 0 {
            self.stop_at(first, Status::LocalOperation);
        }
    }

    /// Builds the next packets, as many of one request as may be sent now: `emit` takes their bytes
    /// from the request and hands them to the network, all or none. If it fails, it may be asked
    /// again; a request that it fails with a status ends when those before it are complete.
    ///
    /// Returns how many packets were emitted.
    pub fn transmit(
        &mut self,
        now_ns: u64,
        emit: impl FnOnce(&[Outgoing]) -> Result<(), Failure>,
    ) -> usize {
        if self.probe.is_due() {
            return self.transmit_probe(now_ns, emit);
        }
        let Some((packet, numbers)) = self.packet(self.next, self.unasked) else { return 0 };
        let posted = &self.requests[self.cursor];
        let (has_response, end) = (posted.request.opcode.has_response(), posted.end());
        let asked =
            |packet: &Outgoing, unasked| if packet.headers.ack_req { 0 } else { unasked + 1 };
        let mut packets = ArrayVec::<_, RUN>::new();
        let mut unasked = asked(&packet, self.unasked);
        let mut next = self.next + u64::from(numbers);
        packets.push(packet);
        while !has_response && next < end && !packets.is_full() {
            let Some((packet, _)) = self.packet(next, unasked) else { break };
            unasked = asked(&packet, unasked);
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
        self.unasked = unasked;
        self.next = next;
        self.sent = self.sent.max(next);
        if has_response {
            self.responses.push_back(next);
        }
        if next == end {
            self.cursor += 1;
        }
        if self.timer == Timer::Off {
            self.wait_for_answer(now_ns);
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
        self.probe.sent(now_ns);
        let is_followed = self.next > self.oldest + u64::from(numbers);
        self.probed = is_followed.then_some(self.oldest);
        1
    }

    /// The oldest packet that waits for its answer, as it is sent again, and how many numbers it takes.
    fn oldest_packet(&self) -> Option<(Outgoing, u32)> {
        if self.oldest == self.next || self.is_stopped() {
            return None;
        }
        let posted = self.requests.get(self.done)?;
        let before = (self.oldest - posted.first) as u32;
        let numbers = self.numbers(posted, before);
        let psn = self.psn(self.oldest);
        let mut packet = posted.request.packet(Service::Rc, &self.attributes, psn, before, numbers);
        packet.headers.ack_req = true;
        Some((packet, numbers))
    }

    /// The packet with the number `next`, of the request at the cursor, and how many numbers it takes.
    /// Since the last that asked for an acknowledgement there are `unasked`.
    fn packet(&self, next: u64, unasked: u32) -> Option<(Outgoing, u32)> {
        if matches!(self.timer, Timer::ReceiverNotReady(_)) {
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
        let under_way = next + u64::from(numbers) - self.oldest;
        if under_way > self.window.max(numbers).into() {
            return None;
        }
        let psn = self.psn(next);
        let mut packet = request.packet(Service::Rc, &self.attributes, psn, before, numbers);
        // In mid-message, so that the window moves on before it is used up.
        packet.headers.ack_req |= unasked + 1 >= (self.window / 4).min(MOST_UNASKED);
        Some((packet, numbers))
    }

    /// The sequence numbers that the packet behind the first `before` of a request takes.
    fn numbers(&self, posted: &Posted, before: u32) -> u32 {
        // The peer may send a read's answer without a pause, so it has to fit our socket's buffer.
        let most = first_window(self.attributes.mtu) / 2;
        match posted.request.opcode {
            // A piece that is asked for again may not reach beyond the one that was asked for
            // first: the responder knows that one.
            Opcode::Read(_) => (most - before % most).min(posted.packets - before),
            _ => 1,
        }
    }

    /// Packets for which [`Operation::is_response`] holds, in the order in which they came. What is
    /// not the answer to something that was sent and not yet answered is ignored.
    pub fn on_packets(
        &mut self,
        now_ns: u64,
        mut packets: &[Packet<'_>],
        queue: &mut impl SendQueue,
    ) {
        while !packets.is_empty() {
            let taken = self.on_run(now_ns, packets, queue);
            packets = &packets[taken..];
        }
        self.complete(queue);
    }

    /// Takes packets from the front. Returns how many.
    fn on_run(&mut self, now_ns: u64, packets: &[Packet<'_>], queue: &mut impl SendQueue) -> usize {
        let packet = &packets[0];
        let behind = packet.headers.psn.distance(self.psn(self.oldest));
        let Ok(behind) = u64::try_from(behind) else { return 1 };
        let at = self.oldest + behind;
        if at >= self.sent || self.is_stopped() {
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
        let waiting = matches!(self.timer, Timer::ReceiverNotReady(_));
        match syndrome {
            Syndrome::Ack { .. } => {
                let was_probe = self.probed == Some(at);
                // Had what follows arrived, it would have been acknowledged with it.
                if self.acknowledge(now_ns, at + 1) && was_probe && self.oldest != self.next {
                    self.retry();
                }
            }
            // The kernel's responder sends one for what was on its way behind the packet that it
            // had no receive for.
            Syndrome::Nak(NakCode::PsnSequence) if waiting => {}
            Syndrome::RnrNak { .. } if waiting => {}
            Syndrome::Nak(NakCode::PsnSequence) => {
                if self.acknowledge(now_ns, at) {
                    self.retry();
                }
            }
            Syndrome::RnrNak { timer } => {
                if self.acknowledge(now_ns, at) {
                    self.receiver_not_ready(now_ns, timer);
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

    /// The first of these packets is the answer with number `at`. Returns how many are taken.
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
        let Posted { request, first, .. } = self.requests[self.done];
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
        // What follows without a gap and has a part of the same answer goes with it.
        let follows = |&number: &usize| {
            let operation = packets[number].headers.operation;
            let numbers = packets[0].headers.psn + number as u32;
            packets[number].headers.psn == numbers
                && at + (number as u64) < self.sent
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
            self.place(now_ns, request.id, offset, (parts, count as u64), queue);
        });
        count
    }

    fn on_atomic(&mut self, now_ns: u64, at: u64, value: u64, queue: &mut impl SendQueue) {
        if !self.acknowledge(now_ns, at) {
            return;
        }
        let request = self.requests[self.done].request;
        match request.opcode {
            Opcode::CompareSwap { .. } | Opcode::FetchAdd { .. } => {
                let value = value.to_ne_bytes();
                self.place(now_ns, request.id, 0, (&[&value], 1), queue);
            }
            _ => self.fail(Status::BadResponse),
        }
    }

    /// The answers to the `count` oldest packets have come with the bytes of `parts`.
    fn place(
        &mut self,
        now_ns: u64,
        id: u64,
        offset: u32,
        (parts, count): (&[&[u8]], u64),
        queue: &mut impl SendQueue,
    ) {
        let is_empty = parts.iter().all(|part| part.is_empty());
        let placed = if is_empty { Ok(()) } else { queue.place(id, offset, parts) };
        match placed {
            Ok(()) => self.advance(now_ns, self.oldest + count),
            Err(Failure::Busy) => {}
            Err(Failure::Failed(status)) => self.fail(status),
        }
    }

    /// Everything before `to` has been executed. Returns whether nothing of it lacks its answer;
    /// if something does, it is asked for again.
    fn acknowledge(&mut self, now_ns: u64, to: u64) -> bool {
        let mut oldest = self.oldest;
        for posted in self.requests.range(self.done..) {
            if oldest == to || posted.request.opcode.has_response() {
                break;
            }
            oldest = posted.end().min(to);
        }
        if oldest != self.oldest {
            self.advance(now_ns, oldest);
        }
        if oldest != to {
            self.retry();
        }
        oldest == to
    }

    /// The packets before `oldest` are done with.
    fn advance(&mut self, now_ns: u64, oldest: u64) {
        self.grow((oldest - self.oldest) as u32);
        self.oldest = oldest;
        while self.requests.get(self.done).is_some_and(|posted| posted.end() <= oldest) {
            self.done += 1;
        }
        self.next = self.next.max(oldest);
        self.cursor = self.cursor.max(self.done);
        while self.responses.front().is_some_and(|&end| end <= oldest) {
            self.responses.pop_front();
        }
        self.retries = self.attributes.retry_cnt;
        self.rnr_retries = self.attributes.rnr_retry;
        self.went_back = false;
        self.probed = None;
        // A receiver that was not ready has become so: a second copy of the packet found a receive.
        self.wait_for_answer(now_ns);
    }

    /// So many packets were not lost.
    fn grow(&mut self, packets: u32) {
        let most = WINDOW_GROWTH * first_window(self.attributes.mtu);
        if self.window < self.threshold {
            self.window += packets;
        } else {
            self.credit += packets;
            if self.credit >= self.window {
                self.credit = 0;
                self.window += 1;
            }
        }
        self.window = self.window.min(most);
    }

    /// A packet was lost.
    fn shrink(&mut self) {
        self.window = (self.window / 2).max(LEAST_WINDOW);
        self.threshold = self.window;
        self.credit = 0;
    }

    fn wait_for_answer(&mut self, now_ns: u64) {
        let Attributes { timeout, retry_cnt, .. } = self.attributes;
        let missed = retry_cnt - self.retries;
        (self.timer, self.probe) = match answer_wait_ns(timeout, missed, self.retries) {
            Some(timeout) if self.oldest != self.next && !self.is_stopped() => {
                // A peer that has let one time-out pass is not just unlucky.
                let probe = if missed == 0 { Probe::begin(now_ns, timeout) } else { Probe::Off };
                (Timer::Answer(now_ns + timeout), probe)
            }
            _ => (Timer::Off, Probe::Off),
        };
    }

    /// The peer says that the oldest packet, or its answer, was lost. What was on its way before we
    /// went back says so again; only progress or time make us listen anew.
    fn retry(&mut self) {
        if !self.went_back && !matches!(self.timer, Timer::ReceiverNotReady(_)) {
            self.went_back = true;
            self.shrink();
            self.go_back();
        }
    }

    /// Nobody says anything. Only this uses up `retry_cnt`: a peer that answers lives.
    fn time_out(&mut self) {
        self.went_back = false;
        match self.retries.checked_sub(1) {
            Some(retries) => {
                self.retries = retries;
                self.shrink();
                self.go_back();
            }
            None => self.fail(Status::RetryExceeded),
        }
    }

    fn receiver_not_ready(&mut self, now_ns: u64, code: u8) {
        /// `rnr_retry` that means "for ever".
        const FOR_EVER: u8 = 7;
        if self.attributes.rnr_retry != FOR_EVER {
            match self.rnr_retries.checked_sub(1) {
                Some(retries) => self.rnr_retries = retries,
                None => return self.fail(Status::RnrRetryExceeded),
            }
        }
        self.retries = self.attributes.retry_cnt;
        self.go_back();
        self.timer = Timer::ReceiverNotReady(now_ns + rnr_wait_ns(code));
    }

    fn go_back(&mut self) {
        self.next = self.oldest;
        self.cursor = self.done;
        self.responses.clear();
        self.stop_timers();
    }

    fn stop_timers(&mut self) {
        self.timer = Timer::Off;
        self.probe = Probe::Off;
        self.probed = None;
    }

    /// When [`Requester::on_timer`] is to be called at the latest.
    pub fn deadline(&self) -> Option<u64> {
        match self.timer {
            Timer::Off => None,
            Timer::Answer(at) => Some(self.probe.deadline().map_or(at, |probe| probe.min(at))),
            Timer::ReceiverNotReady(at) => Some(at),
        }
    }

    /// Does what the time asks for; nothing before [`Requester::deadline`].
    pub fn on_timer(&mut self, now_ns: u64, queue: &mut impl SendQueue) {
        match self.timer {
            Timer::Answer(at) if at <= now_ns => self.time_out(),
            Timer::Answer(_) => return self.probe.on_timer(now_ns),
            Timer::ReceiverNotReady(at) if at <= now_ns => {
                self.went_back = false;
                self.timer = Timer::Off;
            }
            _ => return,
        }
        self.complete(queue);
    }

    /// Completes what is done. Only needed after [`Requester::post`] and [`Requester::transmit`],
    /// which find requests that cannot be sent, and when the queue had no room before.
    pub fn complete(&mut self, queue: &mut impl SendQueue) {
        while self.done > 0 {
            if !queue.complete(self.requests[0].request.id, Status::Success) {
                return;
            }
            self.requests.pop_front();
            self.done -= 1;
            self.cursor -= 1;
        }
        let (Some((_, status)), true) = (self.stop, self.is_stopped()) else { return };
        let first = self.requests.front();
        if first.is_some_and(|posted| queue.complete(posted.request.id, status)) {
            self.requests.clear();
            self.responses.clear();
            self.cursor = 0;
            self.stop_timers();
        }
    }

    /// The oldest request fails.
    fn fail(&mut self, status: Status) {
        self.stop_at(self.requests[self.done].first, status);
    }

    /// The request that begins with `first` fails when it is the oldest one.
    fn stop_at(&mut self, first: u64, status: Status) {
        if self.stop.is_none_or(|(earlier, _)| first < earlier) {
            self.stop = Some((first, status));
        }
        if self.is_stopped() {
            self.stop_timers();
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|(first, _)| first <= self.oldest)
    }

    /// Whether [`Requester::complete`] has something to do.
    pub fn has_finished_requests(&self) -> bool {
        self.done > 0 || self.is_stopped() && !self.requests.is_empty()
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
