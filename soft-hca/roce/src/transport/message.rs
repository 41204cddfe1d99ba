//! How the packets of a send or of a write become a message again: the same for reliable and
//! unreliable connections. IBTA volume 1, 9.7.4.1; `rxe_resp.c`, `check_op_seq` to `execute`.

use super::attributes::Mtu;
use super::request::{MAX_MESSAGE, Remote};
use super::target::{Access, Completion, Received, Refusal, Target};
use crate::wire::headers::{Immediate, Reth};
use crate::wire::opcode::{Operation, SendEnd, Service};
use crate::wire::packet::Packet;

/// The message that is arriving.
#[derive(Debug, Default)]
pub(super) struct Arriving {
    message: Option<Message>,
    /// A receive was taken. It remains for the next message if this one breaks off.
    has_receive: bool,
}

#[derive(Clone, Copy, Debug)]
enum Message {
    Send { arrived: u32 },
    Write { reth: Reth, arrived: u32 },
}

/// A send's or write's packet.
#[derive(Clone, Copy, Debug)]
struct Fragment {
    /// What it begins, if it is a first or only one.
    begins: Option<Message>,
    /// What it ends, if it is a last or only one.
    end: Option<End>,
    is_send: bool,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Send(SendEnd),
    Write(Option<Immediate>),
}

impl Fragment {
    fn of(operation: Operation) -> Option<Fragment> {
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
        Some(Fragment { begins, end, is_send })
    }

    fn begins(&self) -> bool {
        self.begins.is_some()
    }

    fn ends(&self) -> bool {
        self.end.is_some()
    }
}

/// Whether it is a send's or write's packet.
pub(super) fn is_fragment(operation: Operation) -> bool {
    Fragment::of(operation).is_some()
}

/// Packets that are looked at together: a run of one send or write.
pub(super) const RUN: usize = 64;

/// Packets of one message, one behind the other.
#[derive(Debug)]
pub(super) struct Run<'r, 'p> {
    /// What they are together.
    fragment: Fragment,
    pub packets: &'r [Packet<'p>],
}

impl<'r, 'p> Run<'r, 'p> {
    /// As many packets at the front as can be taken for one; the first may not be a send's or
    /// write's.
    pub(super) fn of(packets: &'r [Packet<'p>], mtu: Mtu) -> Option<Self> {
        let first = packets.first()?;
        let mut fragment = Fragment::of(first.headers.operation)?;
        let mut count = 1;
        while count < packets.len().min(RUN) {
            let (last, next) = (&packets[count - 1], &packets[count]);
            let is_full = last.payload.len() == mtu.bytes() as usize;
            let Some(more) = Fragment::of(next.headers.operation) else { break };
            let length = next.payload.len() as u32;
            let fits = if more.ends() {
                (1..=mtu.bytes()).contains(&length)
            } else {
                length == mtu.bytes()
            };
            let follows = next.headers.psn == last.headers.psn + 1
                && more.is_send == fragment.is_send
                && !more.begins();
            if fragment.ends() || !is_full || !fits || !follows {
                break;
            }
            fragment.end = more.end;
            count += 1;
        }
        Some(Self { fragment, packets: &packets[..count] })
    }

    pub(super) fn ends(&self) -> bool {
        self.fragment.ends()
    }

    pub(super) fn begins(&self) -> bool {
        self.fragment.begins()
    }

    fn last(&self) -> &'r Packet<'p> {
        &self.packets[self.packets.len() - 1]
    }

    fn bytes(&self) -> u32 {
        self.packets.iter().map(|packet| packet.payload.len() as u32).sum()
    }
}

/// Does something with the payloads of a run.
pub(super) fn payloads<T>(packets: &[Packet<'_>], work: impl FnOnce(&[&[u8]]) -> T) -> T {
    let mut parts = [&[][..]; RUN];
    let count = packets.len().min(RUN);
    for (part, packet) in parts.iter_mut().zip(packets) {
        *part = packet.payload;
    }
    work(&parts[..count])
}

impl Arriving {
    /// Whether a message is under way, so that its next packet has to come next.
    pub(super) fn is_under_way(&self) -> bool {
        self.message.is_some()
    }

    /// The rest of the message will not come.
    pub(super) fn break_off(&mut self) {
        self.message = None;
    }

    /// The receive that was taken is not for the next message.
    pub(super) fn forget_receive(&mut self) {
        self.has_receive = false;
    }

    /// The next packets. After a refusal it is as if none of them had come.
    pub(super) fn accept(
        &mut self,
        run: &Run<'_, '_>,
        mtu: Mtu,
        target: &mut impl Target,
    ) -> Result<(), Refusal> {
        let fragment = run.fragment;
        let message = match (self.message, fragment.begins) {
            (None, Some(begun)) => begun,
            (Some(message), None)
                if fragment.is_send == matches!(message, Message::Send { .. }) =>
            {
                message
            }
            _ => return Err(Refusal::InvalidRequest),
        };
        // Of several packets it was seen already that they fit.
        let length = run.last().payload.len() as u32;
        let fits = match fragment.ends() {
            true => length <= mtu.bytes() && (length > 0 || fragment.begins()),
            false => length == mtu.bytes(),
        };
        if !fits {
            return Err(Refusal::InvalidRequest);
        }
        let rest = match message {
            Message::Send { arrived } => self.accept_send(run, arrived, target)?,
            Message::Write { reth, arrived } => self.accept_write(run, reth, arrived, target)?,
        };
        self.message = if fragment.ends() { None } else { Some(rest) };
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
        self.take_receive(target)?;
        if arrived > before {
            payloads(run.packets, |parts| target.place(before, parts))?;
        }
        if let Some(End::Send(end)) = run.fragment.end {
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
        let fragment = run.fragment;
        let arrived = before + run.bytes();
        let fits = if fragment.ends() { arrived == reth.length } else { arrived < reth.length };
        if !fits || reth.length > MAX_MESSAGE {
            return Err(Refusal::InvalidRequest);
        }
        let remote = Remote::from(reth);
        let immediate = match fragment.end {
            Some(End::Write(immediate)) => immediate,
            _ => None,
        };
        if fragment.begins() && reth.length > 0 {
            let checked = target.check(Access::Write, remote, reth.length);
            // A receive tells of it if the packet takes one: 9.9.3.1.3.
            let is_single = run.packets.len() == 1 && run.last().headers.service == Service::Rc;
            if checked == Err(Refusal::Access) && immediate.is_some() && is_single {
                self.take_receive(target)?;
            }
            checked?;
        }
        if immediate.is_some() {
            self.take_receive(target)?;
        }
        if arrived > before {
            payloads(run.packets, |parts| target.write(remote.at(before), parts))?;
        }
        if let Some(immediate) = immediate {
            self.complete(Received::Write(immediate), reth.length, run.last(), target)?;
        }
        Ok(Message::Write { reth, arrived })
    }

    fn take_receive(&mut self, target: &mut impl Target) -> Result<(), Refusal> {
        if !self.has_receive {
            target.take_receive()?;
            self.has_receive = true;
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
        self.has_receive = false;
        Ok(())
    }
}
