//! The receiving half of a reliable connection: requests in, answers out.
//!
//! A packet is executed if its number is the expected one. Before that it is a duplicate, and gets
//! its answer again: an acknowledgement for a send or a write, the bytes anew for a read, the saved
//! result for an atomic or a flush. Behind it there is a gap, of which the requester is told once.
//! Answers wait in a queue, in the order in which they have to be sent; acknowledgements in a row
//! become one.
//!
//! Sources: IBTA volume 1, 9.7.4, 9.7.5 and 9.9.3; `rxe_resp.c`.

use std::collections::VecDeque;

use arrayvec::ArrayVec;

use super::attributes::Attributes;
use super::message::{Arriving, RUN, Run, is_fragment};
use super::request::{MAX_MESSAGE, Remote};
use super::target::{Access, Atomic, Refusal, Target};
use crate::wire::bth::Psn;
use crate::wire::headers::{Aeth, AtomicEth, Feth, NakCode, Reth, Syndrome};
use crate::wire::opcode::{Operation, Service};
use crate::wire::packet::{Headers, Packet};

/// An answer that is to be sent: [`Headers::build`] makes it around its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// All that is before the payload.
    pub headers: Headers,
    /// The bytes that follow, if it is a piece of a read's answer: where, and how many. The right
    /// to read them was checked when the request came.
    pub payload: Option<(Remote, u32)>,
}

/// The state of a reliable connection's responder. It has no deadline.
#[derive(Debug)]
pub struct Responder {
    attributes: Attributes,
    /// The number of the next packet to be executed.
    expected: Psn,
    /// The last send or write packet that was executed.
    acknowledged: Psn,
    /// Messages executed.
    msn: u32,
    arriving: Arriving,
    /// The requester was told that it has to come back to `expected`.
    told: bool,
    /// The last atomics and flushes and their results, oldest first.
    results: VecDeque<(Psn, Outcome)>,
    replies: VecDeque<Waiting>,
    failed: bool,
}

/// What an atomic operation or a flush is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Original(u64),
    Done,
}

/// An answer that waits to be sent.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    psn: Psn,
    msn: u32,
    answer: Answer,
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    Acknowledge(Syndrome),
    /// With the bytes that are sent already.
    Read(Reth, u32),
    Outcome(Outcome),
}

impl Responder {
    /// A responder that has executed nothing.
    pub fn new(attributes: Attributes) -> Responder {
        Responder {
            attributes,
            expected: attributes.rq_psn,
            acknowledged: attributes.rq_psn + u32::MAX,
            msn: 0,
            arriving: Arriving::default(),
            told: false,
            results: VecDeque::new(),
            replies: VecDeque::new(),
            failed: false,
        }
    }

    /// Whether the queue pair is in error: nothing is heard, and nothing said once
    /// [`Responder::transmit`] finds no more.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// What a sender is told from now on when there is no receive: it may change while connected.
    pub fn set_min_rnr_timer(&mut self, code: u8) {
        self.attributes.min_rnr_timer = code;
    }

    /// Whether [`Responder::transmit`] would build a packet now.
    pub fn can_transmit(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Packets of a reliable connection that are no responses, in the order in which they came.
    pub fn on_packets(&mut self, mut packets: &[Packet<'_>], target: &mut impl Target) {
        while let Some(first) = packets.first() {
            if self.failed {
                break;
            }
            let mut count = 1;
            let psn = first.headers.psn;
            match psn.distance(self.expected) {
                0 => {
                    self.told = false;
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
                1.. => self.tell(self.expected, Syndrome::Nak(NakCode::PsnSequence)),
                behind => self.repeat(first, behind.unsigned_abs(), target),
            }
            packets = &packets[count..];
        }
    }

    /// Sends' and writes' packets.
    fn execute_run(&mut self, run: &Run<'_, '_>, target: &mut impl Target) -> Result<(), Refusal> {
        let accepted = self.arriving.accept(run, self.attributes.mtu, target);
        let has_arrived = matches!(accepted, Ok(()) | Err(Refusal::Invalidate));
        if !has_arrived {
            return accepted;
        }
        let count = run.packets.len() as u32;
        self.acknowledged = self.expected + (count - 1);
        self.executed(count, run.ends());
        if run.packets.iter().any(|packet| packet.headers.ack_req) {
            self.acknowledge();
        }
        accepted
    }

    fn execute(&mut self, packet: &Packet<'_>, target: &mut impl Target) -> Result<(), Refusal> {
        let psn = packet.headers.psn;
        if self.arriving.is_under_way() || self.attributes.max_dest_rd_atomic == 0 {
            return Err(Refusal::InvalidRequest);
        }
        match packet.headers.operation {
            Operation::ReadRequest(reth) => {
                check_read(reth, target)?;
                if !self.has_room() {
                    return Err(Refusal::Busy);
                }
                self.executed(self.attributes.mtu.packets(reth.length), true);
                self.reply(psn, Answer::Read(reth, 0));
                Ok(())
            }
            Operation::CompareSwap(AtomicEth { address, rkey, swap_or_add, compare }) => {
                let atomic = Atomic::CompareSwap { compare, swap: swap_or_add };
                self.atomic(psn, Remote { address, rkey }, atomic, target)
            }
            Operation::FetchAdd(AtomicEth { address, rkey, swap_or_add, .. }) => {
                let atomic = Atomic::FetchAdd(swap_or_add);
                self.atomic(psn, Remote { address, rkey }, atomic, target)
            }
            Operation::AtomicWrite(reth) => {
                let bytes = packet.payload.try_into().ok().filter(|_| reth.length == 8);
                let atomic = Atomic::Write(bytes.ok_or(Refusal::InvalidRequest)?);
                self.atomic(psn, reth.into(), atomic, target)
            }
            Operation::Flush(feth, reth) => {
                if reth.length > MAX_MESSAGE && feth.selectivity == Feth::RANGE {
                    return Err(Refusal::InvalidRequest);
                }
                if !self.has_room() {
                    return Err(Refusal::Busy);
                }
                target.flush(reth.into(), reth.length, feth)?;
                self.answer_once(psn, Outcome::Done);
                Ok(())
            }
            _ => Err(Refusal::InvalidRequest),
        }
    }

    /// Executes an atomic operation.
    fn atomic(
        &mut self,
        psn: Psn,
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
        self.answer_once(psn, outcome);
        Ok(())
    }

    /// The packet was executed. Its result is saved for a duplicate of the request, which is not
    /// executed again (IBTA volume 1, 9.7.5.1.2 and oA19-14).
    fn answer_once(&mut self, psn: Psn, outcome: Outcome) {
        if self.results.len() == usize::from(self.attributes.max_dest_rd_atomic) {
            self.results.pop_front();
        }
        self.results.push_back((psn, outcome));
        self.executed(1, true);
        self.reply(psn, Answer::Outcome(outcome));
    }

    /// A request that came `behind` packets ago already.
    fn repeat(&mut self, packet: &Packet<'_>, behind: u32, target: &mut impl Target) {
        let psn = packet.headers.psn;
        match packet.headers.operation {
            operation if is_fragment(operation) => self.acknowledge(),
            Operation::ReadRequest(reth) => {
                // Nothing was read that is not the expected packet's yet.
                let was_read = self.attributes.mtu.packets(reth.length) <= behind;
                if was_read && check_read(reth, target).is_ok() {
                    self.read_again(psn, reth);
                }
            }
            Operation::CompareSwap(_)
            | Operation::FetchAdd(_)
            | Operation::AtomicWrite(_)
            | Operation::Flush(..) => {
                let saved = self.results.iter().find(|(saved, _)| *saved == psn).copied();
                let waits = self
                    .replies
                    .iter()
                    .any(|reply| reply.psn == psn && matches!(reply.answer, Answer::Outcome(_)));
                if let (Some((_, outcome)), false) = (saved, waits) {
                    self.reply(psn, Answer::Outcome(outcome));
                }
            }
            _ => {}
        }
    }

    /// Answers a read again from the packet that was asked for, perhaps not the first.
    fn read_again(&mut self, psn: Psn, reth: Reth) {
        let mtu = self.attributes.mtu;
        for waiting in &mut self.replies {
            let Answer::Read(old, sent) = &mut waiting.answer else { continue };
            let Ok(before) = u32::try_from(psn.distance(waiting.psn)) else { continue };
            if before >= mtu.packets(old.length) {
                continue;
            }
            // It is being answered: only what has been sent already is to be sent again.
            let skipped = before * mtu.bytes();
            let is_part = old.rkey == reth.rkey
                && old.address.wrapping_add(skipped.into()) == reth.address
                && skipped <= old.length;
            if is_part && skipped < *sent {
                let length = old.length - skipped;
                *old = Reth { length, ..reth };
                *sent = 0;
                waiting.psn = psn;
            }
            return;
        }
        self.reply(psn, Answer::Read(reth, 0));
    }

    /// The expected packet was not executed.
    fn refuse(&mut self, psn: Psn, refusal: Refusal, target: &mut impl Target) {
        let code = match refusal {
            Refusal::Busy => return,
            Refusal::NotReady => {
                let timer = self.attributes.min_rnr_timer;
                return self.tell(psn, Syndrome::RnrNak { timer });
            }
            Refusal::InvalidRequest | Refusal::ReceiveTooSmall => Some(NakCode::InvalidRequest),
            Refusal::Access => Some(NakCode::RemoteAccess),
            Refusal::Receive => Some(NakCode::RemoteOperational),
            Refusal::Invalidate | Refusal::Overflow => None,
        };
        self.failed = true;
        if let Some(code) = code {
            self.push(psn, Answer::Acknowledge(Syndrome::Nak(code)));
        }
        target.fail(refusal);
    }

    /// Tells the requester, once, that it has to come back to the expected packet.
    fn tell(&mut self, psn: Psn, syndrome: Syndrome) {
        if !self.told {
            self.told = self.reply(psn, Answer::Acknowledge(syndrome));
        }
    }

    /// Answers and results that are kept.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn kept(&self) -> usize {
        self.replies.len().max(self.results.len())
    }

    fn executed(&mut self, packets: u32, is_message: bool) {
        self.expected += packets;
        self.msn = self.msn.wrapping_add(is_message.into());
    }

    /// Acknowledges all sends and writes that were executed.
    fn acknowledge(&mut self) {
        let psn = self.acknowledged;
        if let Some(Waiting { answer: Answer::Acknowledge(Syndrome::Ack { .. }), .. }) =
            self.replies.back()
        {
            self.replies.pop_back();
        }
        self.reply(psn, Answer::Acknowledge(Syndrome::ACK));
    }

    /// Whether another answer can wait. A requester that keeps to our depth of reads and atomics
    /// always finds room, even if it asks for all of them twice.
    fn has_room(&self) -> bool {
        self.replies.len() < 4 * usize::from(self.attributes.max_dest_rd_atomic) + 4
    }

    fn reply(&mut self, psn: Psn, answer: Answer) -> bool {
        let has_room = self.has_room();
        if has_room {
            self.push(psn, answer);
        }
        has_room
    }

    fn push(&mut self, psn: Psn, answer: Answer) {
        self.replies.push_back(Waiting { psn, msn: self.msn, answer });
    }

    /// Builds the next answer, if there is one, of a read's as many packets as may be taken together:
    /// `emit` takes their bytes, which lie one behind the other, from memory and hands them to the
    /// network, all or none. If it is busy, it will be asked again. After any other refusal the queue
    /// pair is in error: it may read no more.
    ///
    /// Returns how many packets were emitted.
    pub fn transmit<T: Target>(
        &mut self,
        target: &mut T,
        emit: impl FnOnce(&mut T, &[Reply]) -> Result<(), Refusal>,
    ) -> usize {
        let Some(waiting) = self.replies.front() else { return 0 };
        let before = match waiting.answer {
            Answer::Read(_, sent) => sent,
            _ => 0,
        };
        let mut replies = ArrayVec::<_, RUN>::new();
        let mut rest = Some(before);
        while let Some(sent) = rest {
            if replies.is_full() {
                break;
            }
            let (reply, more) = waiting.packet(&self.attributes, sent);
            replies.push(reply);
            rest = more;
        }
        let psn = replies[0].headers.psn;
        match emit(target, &replies) {
            Ok(()) => {}
            Err(Refusal::Busy | Refusal::NotReady) => return 0,
            Err(refusal) => {
                self.replies.clear();
                if !self.failed {
                    self.refuse(psn, refusal, target);
                }
                return 0;
            }
        }
        match (self.replies.front_mut().map(|waiting| &mut waiting.answer), rest) {
            (Some(Answer::Read(_, sent)), Some(rest)) => *sent = rest,
            _ => {
                self.replies.pop_front();
            }
        }
        replies.len()
    }
}

impl Waiting {
    /// The packet behind the first `sent` bytes, if it answers a read, and how many are sent with it, if
    /// that is not all.
    fn packet(&self, attributes: &Attributes, sent: u32) -> (Reply, Option<u32>) {
        let aeth = |syndrome| Aeth { syndrome, msn: self.msn };
        let mtu = attributes.mtu.bytes();
        let mut payload = None;
        let mut rest = None;
        let operation = match &self.answer {
            Answer::Acknowledge(syndrome) => Operation::Acknowledge(aeth(*syndrome)),
            Answer::Outcome(Outcome::Original(original)) => {
                Operation::AtomicAcknowledge(aeth(Syndrome::ACK), *original)
            }
            Answer::Outcome(Outcome::Done) => Operation::ReadResponseOnly(aeth(Syndrome::ACK)),
            Answer::Read(reth, _) => {
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
        (Reply { headers, payload }, rest)
    }
}

fn check_read(reth: Reth, target: &mut impl Target) -> Result<(), Refusal> {
    match reth.length {
        0 => Ok(()),
        length if length > MAX_MESSAGE => Err(Refusal::InvalidRequest),
        length => target.check(Access::Read, reth.into(), length),
    }
}
