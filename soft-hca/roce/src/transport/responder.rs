//! The responder of a reliable connection: requests in, responses out.
//!
//! A packet is executed if it has the expected PSN. One with an earlier PSN is a duplicate, and gets
//! its response again: an acknowledgement for a send or a write, the bytes anew for a read, the saved
//! result for an atomic or a flush, as far as [they are kept](super::resource). One with a later
//! PSN shows that packets are missing, and the first such packet causes a NAK. Responses wait in a
//! queue, in the order in which they are sent; consecutive acknowledgements are coalesced.
//!
//! Sources: IBTA volume 1, 9.7.4, 9.7.5 and 9.9.3; `rxe_resp.c`.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use arrayvec::ArrayVec;

use super::attributes::Attributes;
use super::error_state::ErrorState;
use super::events::{Event, EventCounts};
use super::message::{RUN, Reassembly, Run, is_segment};
use super::request::{MAX_MESSAGE, Remote};
use super::resource::{Again, Outcome, Resources};
use super::target::{Access, Atomic, Refusal, Target};
use crate::wire::bth::Psn;
use crate::wire::headers::{Aeth, AtomicEth, Feth, NakCode, Reth, Syndrome};
use crate::wire::opcode::{Operation, Service};
use crate::wire::packet::{Headers, Packet};

/// A response that is to be sent: [`Headers::build`] makes it around its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    /// All that is before the payload.
    pub headers: Headers,
    /// The bytes that follow in a read response: where they are, and how many. The right to read
    /// them was checked when the request came.
    pub payload: Option<(Remote, u32)>,
}

/// The state of a reliable connection's responder. It has no deadline.
#[derive(Debug, Serialize, Deserialize)]
pub struct RcResponder {
    attributes: Attributes,
    /// The expected PSN.
    expected_psn: Psn,
    /// The PSN of the last send or write packet that was executed, which an acknowledgement has.
    last_write_psn: Psn,
    /// Message sequence number: messages executed.
    msn: u32,
    reassembly: Reassembly,
    /// A NAK for the expected PSN was sent, and the requester has not retransmitted it yet: there is
    /// no other NAK until then.
    nak_pending: bool,
    resources: Resources,
    responses: VecDeque<Pending>,
    pub(super) error: ErrorState,
    pub(super) event_counts: EventCounts,
}

/// A response that waits to be sent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Pending {
    psn: Psn,
    msn: u32,
    kind: Kind,
}

impl Pending {
    fn brings_data(&self) -> bool {
        matches!(self.kind, Kind::Read(reth, _) if reth.length > 0)
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Kind {
    Acknowledge(Syndrome),
    /// With the number of bytes that are sent already.
    Read(Reth, u32),
    Outcome(Outcome),
}

impl RcResponder {
    /// A responder that has executed nothing.
    pub fn new(attributes: Attributes) -> RcResponder {
        RcResponder {
            attributes,
            expected_psn: attributes.rq_psn,
            last_write_psn: attributes.rq_psn + u32::MAX,
            msn: 0,
            reassembly: Reassembly::default(),
            nak_pending: false,
            resources: Resources::default(),
            responses: VecDeque::new(),
            error: ErrorState::Operational,
            event_counts: EventCounts::default(),
        }
    }

    /// Whether the queue pair is in the error state: packets are ignored, and nothing is sent once
    /// [`RcResponder::transmit`] finds no more.
    pub fn has_failed(&self) -> bool {
        self.error.has_failed()
    }

    /// The timer code of RNR NAKs from now on: it may change while connected.
    pub fn set_min_rnr_timer(&mut self, code: u8) {
        self.attributes.min_rnr_timer = code;
    }

    /// Whether the next response brings no data: what it says is known, whatever has become of the memory.
    pub fn can_answer(&self) -> bool {
        self.responses.front().is_some_and(|response| !response.brings_data())
    }

    /// Whether a response that waits brings data.
    pub fn owes_data(&self) -> bool {
        self.responses.iter().any(Pending::brings_data)
    }

    /// Whether [`RcResponder::transmit`] would build a packet now.
    #[cfg(test)]
    pub fn can_transmit(&self) -> bool {
        !self.responses.is_empty()
    }

    /// Requests' packets, in the order in which they came.
    pub fn on_packets(&mut self, mut packets: &[Packet<'_>], target: &mut impl Target) {
        while let Some(first) = packets.first() {
            if self.has_failed() {
                break;
            }
            let mut count = 1;
            let psn = first.headers.psn;
            match psn.distance(self.expected_psn) {
                0 => {
                    self.nak_pending = false;
                    let run = Run::of(packets, self.attributes.mtu);
                    count = run.as_ref().map_or(1, |run| run.packets.len());
                    let executed = match &run {
                        Some(run) => self.execute_run(run, target),
                        None => self.execute(first, target),
                    };
                    if let Err(refusal) = executed {
                        self.refuse(psn, refusal, target);
                    }
                }
                1.. => {
                    self.event_counts.count(Event::OutOfSequenceRequest);
                    self.nak(self.expected_psn, Syndrome::Nak(NakCode::PsnSequence));
                }
                _ => {
                    self.event_counts.count(Event::DuplicateRequest);
                    self.repeat(first, target);
                }
            }
            packets = &packets[count..];
        }
    }

    /// Executes consecutive packets of a send or write.
    fn execute_run(&mut self, run: &Run<'_, '_>, target: &mut impl Target) -> Result<(), Refusal> {
        let accepted = self.reassembly.accept(run, self.attributes.mtu, target);
        let has_arrived = matches!(accepted, Ok(()) | Err(Refusal::Invalidate));
        if !has_arrived {
            return accepted;
        }
        let count = run.packets.len() as u32;
        self.last_write_psn = self.expected_psn + (count - 1);
        self.executed(count, run.ends());
        if run.packets.iter().any(|packet| packet.headers.ack_req) {
            self.acknowledge();
        }
        accepted
    }

    fn execute(&mut self, packet: &Packet<'_>, target: &mut impl Target) -> Result<(), Refusal> {
        let psn = packet.headers.psn;
        if self.reassembly.in_progress() || self.attributes.max_dest_rd_atomic == 0 {
            return Err(Refusal::InvalidRequest);
        }
        match packet.headers.operation {
            Operation::ReadRequest(reth) => {
                check_read(reth, target)?;
                if !self.has_room() {
                    return Err(Refusal::Busy);
                }
                self.keep(packet, None);
                self.executed(self.attributes.mtu.packets(reth.length), true);
                self.respond(psn, Kind::Read(reth, 0));
                Ok(())
            }
            Operation::CompareSwap(AtomicEth { address, rkey, swap_or_add, compare }) => {
                let atomic = Atomic::CompareSwap { compare, swap: swap_or_add };
                self.atomic(packet, Remote { address, rkey }, atomic, target)
            }
            Operation::FetchAdd(AtomicEth { address, rkey, swap_or_add, .. }) => {
                let atomic = Atomic::FetchAdd(swap_or_add);
                self.atomic(packet, Remote { address, rkey }, atomic, target)
            }
            Operation::AtomicWrite(reth) => {
                let bytes = packet.payload.try_into().ok().filter(|_| reth.length == 8);
                let atomic = Atomic::Write(bytes.ok_or(Refusal::InvalidRequest)?);
                self.atomic(packet, reth.into(), atomic, target)
            }
            Operation::Flush(feth, reth) => {
                if reth.length > MAX_MESSAGE && feth.selectivity == Feth::RANGE {
                    return Err(Refusal::InvalidRequest);
                }
                if !self.has_room() {
                    return Err(Refusal::Busy);
                }
                target.flush(reth.into(), reth.length, feth)?;
                self.respond_once(packet, Outcome::Done);
                Ok(())
            }
            _ => Err(Refusal::InvalidRequest),
        }
    }

    /// Executes an atomic operation.
    fn atomic(
        &mut self,
        packet: &Packet<'_>,
        remote: Remote,
        atomic: Atomic,
        target: &mut impl Target,
    ) -> Result<(), Refusal> {
        if remote.address % 8 != 0 {
            return Err(Refusal::InvalidRequest);
        }
        if !self.has_room() {
            return Err(Refusal::Busy);
        }
        let original = target.atomic(remote, atomic)?;
        let outcome = match atomic {
            Atomic::Write(_) => Outcome::Done,
            _ => Outcome::Original(original),
        };
        self.respond_once(packet, outcome);
        Ok(())
    }

    /// The packet was executed. Its result is saved for a duplicate of the request, which is not
    /// executed again (IBTA volume 1, 9.7.5.1.2 and oA19-14).
    fn respond_once(&mut self, packet: &Packet<'_>, outcome: Outcome) {
        self.keep(packet, Some(outcome));
        self.executed(1, true);
        self.respond(packet.headers.psn, Kind::Outcome(outcome));
    }

    fn keep(&mut self, packet: &Packet<'_>, outcome: Option<Outcome>) {
        let Headers { psn, operation, .. } = packet.headers;
        self.resources.keep(psn, operation, outcome, self.attributes.max_dest_rd_atomic);
    }

    /// A duplicate request. One that is not kept is dropped (IBTA volume 1, 9.9.3.1, class D).
    fn repeat(&mut self, packet: &Packet<'_>, target: &mut impl Target) {
        let Headers { psn, operation, .. } = packet.headers;
        if is_segment(operation) {
            return self.acknowledge();
        }
        match self.resources.again(psn, operation, self.attributes.mtu) {
            Some(Again::Read(reth)) if check_read(reth, target).is_ok() => {
                self.repeat_read(psn, reth);
            }
            Some(Again::Outcome(outcome)) if !self.owes_outcome(psn) => {
                self.respond(psn, Kind::Outcome(outcome));
            }
            _ => {}
        }
    }

    /// Whether the result of the request with this PSN waits to be sent.
    fn owes_outcome(&self, psn: Psn) -> bool {
        let is_of =
            |response: &Pending| response.psn == psn && matches!(response.kind, Kind::Outcome(_));
        self.responses.iter().any(is_of)
    }

    /// Responds to a duplicate read again, which may begin in the middle of the original one.
    fn repeat_read(&mut self, psn: Psn, reth: Reth) {
        let mtu = self.attributes.mtu;
        for pending in &mut self.responses {
            let Kind::Read(old, sent) = &mut pending.kind else { continue };
            let Ok(before) = u32::try_from(psn.distance(pending.psn)) else { continue };
            if before >= mtu.packets(old.length) {
                continue;
            }
            // It is being responded to: only what has been sent already is sent again.
            let skipped = before * mtu.bytes();
            let is_part = old.rkey == reth.rkey
                && old.address.wrapping_add(skipped.into()) == reth.address
                && skipped <= old.length;
            if is_part && skipped < *sent {
                let length = old.length - skipped;
                *old = Reth { length, ..reth };
                *sent = 0;
                pending.psn = psn;
            }
            return;
        }
        self.respond(psn, Kind::Read(reth, 0));
    }

    /// The packet with the expected PSN was not executed.
    fn refuse(&mut self, psn: Psn, refusal: Refusal, target: &mut impl Target) {
        let code = match refusal {
            Refusal::Busy => return,
            Refusal::NotReady => {
                let timer = self.attributes.min_rnr_timer;
                if self.nak(psn, Syndrome::RnrNak { timer }) {
                    self.event_counts.count(Event::RnrSent);
                }
                return;
            }
            Refusal::InvalidRequest | Refusal::ReceiveTooSmall => Some(NakCode::InvalidRequest),
            Refusal::Access => Some(NakCode::RemoteAccess),
            Refusal::Receive => Some(NakCode::RemoteOperational),
            Refusal::Invalidate | Refusal::Overflow => None,
        };
        if let Some(code) = code {
            self.push(psn, Kind::Acknowledge(Syndrome::Nak(code)));
        }
        self.error.enter(refusal, target);
    }

    /// Sends a NAK for the expected PSN, unless one is pending. Whether it does.
    fn nak(&mut self, psn: Psn, syndrome: Syndrome) -> bool {
        let is_new = !self.nak_pending && self.respond(psn, Kind::Acknowledge(syndrome));
        self.nak_pending |= is_new;
        is_new
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Whether a responder can be in this state, which somebody else has made up or kept.
    pub(super) fn is_possible(&self) -> bool {
        let Attributes { mtu, max_dest_rd_atomic, .. } = self.attributes;
        let reads = self.responses.iter().all(|pending| match pending.kind {
            Kind::Read(reth, sent) => {
                let is_at_packet = sent % mtu.bytes() == 0;
                reth.length <= MAX_MESSAGE && sent <= reth.length && is_at_packet
            }
            Kind::Acknowledge(_) | Kind::Outcome(_) => true,
        });
        // One more than there is room for is the last one, which tells of a failure.
        let most = 4 * usize::from(max_dest_rd_atomic) + 5;
        reads
            && self.responses.len() <= most
            && self.resources.is_possible(max_dest_rd_atomic)
            && self.reassembly.is_possible()
    }

    /// Responses that wait, or requests that are kept, whichever are more.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn kept(&self) -> usize {
        self.responses.len().max(self.resources.len())
    }

    fn executed(&mut self, packets: u32, is_message: bool) {
        self.expected_psn += packets;
        self.msn = self.msn.wrapping_add(is_message.into());
    }

    /// Acknowledges all sends and writes that were executed. Replaces an acknowledgement that waits.
    fn acknowledge(&mut self) {
        let psn = self.last_write_psn;
        if let Some(Pending { kind: Kind::Acknowledge(Syndrome::Ack { .. }), .. }) =
            self.responses.back()
        {
            self.responses.pop_back();
        }
        self.respond(psn, Kind::Acknowledge(Syndrome::ACK));
    }

    /// Whether another response can wait. A requester that keeps to `max_dest_rd_atomic` always
    /// finds room, even if it sends each read and atomic twice.
    fn has_room(&self) -> bool {
        self.responses.len() < 4 * usize::from(self.attributes.max_dest_rd_atomic) + 4
    }

    fn respond(&mut self, psn: Psn, kind: Kind) -> bool {
        let has_room = self.has_room();
        if has_room {
            self.push(psn, kind);
        }
        has_room
    }

    fn push(&mut self, psn: Psn, kind: Kind) {
        self.responses.push_back(Pending { psn, msn: self.msn, kind });
    }

    /// Builds the next response, if there is one; of a read as many of its packets as are sent
    /// together. `emit` reads their payload, which is contiguous in memory, and sends them, all or
    /// none. If it is busy, it is called again later. After any other refusal the queue pair goes to
    /// the error state.
    ///
    /// Returns how many packets were sent.
    pub fn transmit<T: Target>(
        &mut self,
        target: &mut T,
        emit: impl FnOnce(&mut T, &[Response]) -> Result<(), Refusal>,
    ) -> usize {
        let Some(pending) = self.responses.front() else { return 0 };
        let before = match pending.kind {
            Kind::Read(_, sent) => sent,
            _ => 0,
        };
        let mut responses = ArrayVec::<_, RUN>::new();
        let mut rest = Some(before);
        while let Some(sent) = rest {
            if responses.is_full() {
                break;
            }
            let (response, more) = pending.packet(&self.attributes, sent);
            responses.push(response);
            rest = more;
        }
        let psn = responses[0].headers.psn;
        match emit(target, &responses) {
            Ok(()) => {}
            Err(Refusal::Busy | Refusal::NotReady) => return 0,
            Err(refusal) => {
                self.responses.clear();
                if !self.has_failed() {
                    self.refuse(psn, refusal, target);
                }
                return 0;
            }
        }
        match (self.responses.front_mut().map(|pending| &mut pending.kind), rest) {
            (Some(Kind::Read(_, sent)), Some(rest)) => *sent = rest,
            _ => {
                self.responses.pop_front();
            }
        }
        responses.len()
    }
}

impl Pending {
    /// The packet after the first `sent` bytes of a read, and how many bytes are sent with it, if that
    /// is not all.
    fn packet(&self, attributes: &Attributes, sent: u32) -> (Response, Option<u32>) {
        let aeth = |syndrome| Aeth { syndrome, msn: self.msn };
        let mtu = attributes.mtu.bytes();
        let mut payload = None;
        let mut rest = None;
        let operation = match &self.kind {
            Kind::Acknowledge(syndrome) => Operation::Acknowledge(aeth(*syndrome)),
            Kind::Outcome(Outcome::Original(original)) => {
                Operation::AtomicAcknowledge(aeth(Syndrome::ACK), *original)
            }
            Kind::Outcome(Outcome::Done) => Operation::ReadResponseOnly(aeth(Syndrome::ACK)),
            Kind::Read(reth, _) => {
                let here = (reth.length - sent).min(mtu);
                payload = (here > 0).then(|| (Remote::from(*reth).at(sent), here));
                rest = Some(sent + here).filter(|sent| *sent < reth.length);
                match (sent == 0, rest.is_none()) {
                    (true, true) => Operation::ReadResponseOnly(aeth(Syndrome::ACK)),
                    (true, false) => Operation::ReadResponseFirst(aeth(Syndrome::ACK)),
                    (false, false) => Operation::ReadResponseMiddle,
                    (false, true) => Operation::ReadResponseLast(aeth(Syndrome::ACK)),
                }
            }
        };
        let psn = self.psn + sent / mtu;
        let headers = Headers::new(Service::Rc, operation, attributes.dest_qpn, psn);
        (Response { headers, payload }, rest)
    }
}

fn check_read(reth: Reth, target: &mut impl Target) -> Result<(), Refusal> {
    if reth.length > MAX_MESSAGE {
        return Err(Refusal::InvalidRequest);
    }
    target.check(Access::Read, reth.into(), reth.length)
}
