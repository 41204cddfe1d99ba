//! Reassembly: how the packets of a send or write become a message again. It is the same for reliable
//! and unreliable connections. IBTA volume 1, 9.7.4.1; `rxe_resp.c`, `check_op_seq` to `execute`.

use super::attributes::Mtu;
use super::request::{MAX_MESSAGE, Remote};
use super::target::{Access, Completion, Received, Refusal, Target};
use crate::wire::headers::{Immediate, Reth};
use crate::wire::opcode::{Operation, SendEnd, Service};
use crate::wire::packet::Packet;
use serde::{Deserialize, Serialize};

/// The message that is arriving.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Reassembly {
    message: Option<Message>,
    /// A receive work request was consumed. It stays for the next message if this one is aborted.
    holds_receive: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Message {
    Send { arrived: u32 },
    Write { reth: Reth, arrived: u32 },
}

/// The part of a message in a packet of a send or write, or in several consecutive ones together.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// The message that it begins, if it is a first or only packet.
    begins: Option<Message>,
    /// How it ends the message, if it is a last or only packet.
    end: Option<End>,
    is_send: bool,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Send(SendEnd),
    Write(Option<Immediate>),
}

impl Segment {
    fn of(operation: Operation) -> Option<Segment> {
        let send = Message::Send { arrived: 0 };
        let write = |reth| Message::Write { reth, arrived: 0 };
        let (is_send, begins, end) = match operation {
            Operation::SendFirst => (true, Some(send), None),
            Operation::SendMiddle => (true, None, None),
            Operation::SendLast(end) => (true, None, Some(End::Send(end))),
            Operation::SendOnly(end) => (true, Some(send), Some(End::Send(end))),
            Operation::WriteFirst(reth) => (false, Some(write(reth)), None),
            Operation::WriteMiddle => (false, None, None),
            Operation::WriteLast(immediate) => (false, None, Some(End::Write(immediate))),
            Operation::WriteOnly(reth, immediate) => {
                (false, Some(write(reth)), Some(End::Write(immediate)))
            }
            _ => return None,
        };
        Some(Segment { begins, end, is_send })
    }

    fn begins(&self) -> bool {
        self.begins.is_some()
    }

    fn ends(&self) -> bool {
        self.end.is_some()
    }
}

/// Whether it is a packet of a send or write.
pub(super) fn is_segment(operation: Operation) -> bool {
    Segment::of(operation).is_some()
}

/// Packets of one message that are handled together, at most.
pub(super) const RUN: usize = 64;

/// Consecutive packets of one message.
#[derive(Debug)]
pub(super) struct Run<'r, 'p> {
    /// Their part of the message.
    segment: Segment,
    pub packets: &'r [Packet<'p>],
}

impl<'r, 'p> Run<'r, 'p> {
    /// As many packets at the front as belong together. `None` if the first is not of a send or write.
    pub(super) fn of(packets: &'r [Packet<'p>], mtu: Mtu) -> Option<Self> {
        let first = packets.first()?;
        let mut segment = Segment::of(first.headers.operation)?;
        let mut count = 1;
        while count < packets.len().min(RUN) {
            let (last, next) = (&packets[count - 1], &packets[count]);
            let is_full = last.payload.len() == mtu.bytes() as usize;
            let Some(more) = Segment::of(next.headers.operation) else { break };
            let length = next.payload.len() as u32;
            let fits = if more.ends() {
                (1..=mtu.bytes()).contains(&length)
            } else {
                length == mtu.bytes()
            };
            let follows = next.headers.psn == last.headers.psn + 1
                && more.is_send == segment.is_send
                && !more.begins();
            if segment.ends() || !is_full || !fits || !follows {
                break;
            }
            segment.end = more.end;
            count += 1;
        }
        Some(Self { segment, packets: &packets[..count] })
    }

    pub(super) fn ends(&self) -> bool {
        self.segment.ends()
    }

    pub(super) fn begins(&self) -> bool {
        self.segment.begins()
    }

    fn last(&self) -> &'r Packet<'p> {
        &self.packets[self.packets.len() - 1]
    }

    fn bytes(&self) -> u32 {
        self.packets.iter().map(|packet| packet.payload.len() as u32).sum()
    }
}

/// Calls `work` with the payloads of a run.
pub(super) fn payloads<T>(packets: &[Packet<'_>], work: impl FnOnce(&[&[u8]]) -> T) -> T {
    let mut parts = [&[][..]; RUN];
    let count = packets.len().min(RUN);
    for (part, packet) in parts.iter_mut().zip(packets) {
        *part = packet.payload;
    }
    work(&parts[..count])
}

impl Reassembly {
    /// Whether a message has begun, so that its next packet has to come next.
    pub(super) fn in_progress(&self) -> bool {
        self.message.is_some()
    }

    /// Whether a message can have come so far.
    pub(super) fn is_possible(&self) -> bool {
        match self.message {
            None => true,
            Some(Message::Send { arrived }) => arrived <= MAX_MESSAGE,
            Some(Message::Write { reth, arrived }) => {
                arrived <= reth.length && reth.length <= MAX_MESSAGE
            }
        }
    }

    /// Drops the rest of the message.
    pub(super) fn abort(&mut self) {
        self.message = None;
    }

    /// The receive work request that was consumed has completed: the next message consumes another.
    pub(super) fn receive_released(&mut self) {
        self.holds_receive = false;
    }

    /// Executes the next packets. After a refusal it is as if none of them had come.
    pub(super) fn accept(
        &mut self,
        run: &Run<'_, '_>,
        mtu: Mtu,
        target: &mut impl Target,
    ) -> Result<(), Refusal> {
        let segment = run.segment;
        let message = match (self.message, segment.begins) {
            (None, Some(begun)) => begun,
            (Some(message), None) if segment.is_send == matches!(message, Message::Send { .. }) => {
                message
            }
            _ => return Err(Refusal::InvalidRequest),
        };
        // The other packets of a run are full, which `Run::of` has checked.
        let length = run.last().payload.len() as u32;
        let fits = match segment.ends() {
            true => length <= mtu.bytes() && (length > 0 || segment.begins()),
            false => length == mtu.bytes(),
        };
        if !fits {
            return Err(Refusal::InvalidRequest);
        }
        let rest = match message {
            Message::Send { arrived } => self.accept_send(run, arrived, target)?,
            Message::Write { reth, arrived } => self.accept_write(run, reth, arrived, target)?,
        };
        self.message = if segment.ends() { None } else { Some(rest) };
        Ok(())
    }

    fn accept_send(
        &mut self,
        run: &Run<'_, '_>,
        before: u32,
        target: &mut impl Target,
    ) -> Result<Message, Refusal> {
        let arrived = before + run.bytes();
        if arrived > MAX_MESSAGE {
            return Err(Refusal::InvalidRequest);
        }
        self.consume_receive(target)?;
        if arrived > before {
            payloads(run.packets, |parts| target.scatter(before, parts))?;
        }
        if let Some(End::Send(end)) = run.segment.end {
            self.complete(Received::Send(end), arrived, run.last(), target)?;
        }
        Ok(Message::Send { arrived })
    }

    fn accept_write(
        &mut self,
        run: &Run<'_, '_>,
        reth: Reth,
        before: u32,
        target: &mut impl Target,
    ) -> Result<Message, Refusal> {
        let segment = run.segment;
        let arrived = before + run.bytes();
        let fits = if segment.ends() { arrived == reth.length } else { arrived < reth.length };
        if !fits || reth.length > MAX_MESSAGE {
            return Err(Refusal::InvalidRequest);
        }
        let remote = Remote::from(reth);
        let immediate = match segment.end {
            Some(End::Write(immediate)) => immediate,
            _ => None,
        };
        if segment.begins() {
            let checked = target.check(Access::Write, remote, reth.length);
            // The error completes a receive work request, if the packet consumes one: 9.9.3.1.3.
            let is_single = run.packets.len() == 1 && run.last().headers.service == Service::Rc;
            if checked == Err(Refusal::Access) && immediate.is_some() && is_single {
                self.consume_receive(target)?;
            }
            checked?;
        }
        if immediate.is_some() {
            self.consume_receive(target)?;
        }
        if arrived > before {
            payloads(run.packets, |parts| target.write(remote.at(before), parts))?;
        }
        if let Some(immediate) = immediate {
            self.complete(Received::Write(immediate), reth.length, run.last(), target)?;
        }
        Ok(Message::Write { reth, arrived })
    }

    fn consume_receive(&mut self, target: &mut impl Target) -> Result<(), Refusal> {
        if !self.holds_receive {
            target.consume_receive()?;
            self.holds_receive = true;
        }
        Ok(())
    }

    fn complete(
        &mut self,
        received: Received,
        length: u32,
        packet: &Packet<'_>,
        target: &mut impl Target,
    ) -> Result<(), Refusal> {
        let solicited = packet.headers.solicited;
        target.complete(Completion { received, length, solicited })?;
        self.holds_receive = false;
        Ok(())
    }
}
