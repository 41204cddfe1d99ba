//! How the packets of a send or of a write become a message again: the same for reliable and
//! unreliable connections. IBTA volume 1, 9.7.4.1; `rxe_resp.c`, `check_op_seq` to `execute`.

use super::attributes::Mtu;
use super::request::{MAX_MESSAGE, Remote};
use super::target::{Access, Completion, Received, Refusal, Target};
use crate::wire::headers::{Immediate, Reth};
use crate::wire::opcode::{Operation, SendEnd};
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
pub(super) struct Fragment {
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
    pub(super) fn of(operation: Operation) -> Option<Fragment> {
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

    pub(super) fn begins(&self) -> bool {
        self.begins.is_some()
    }

    pub(super) fn ends(&self) -> bool {
        self.end.is_some()
    }
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

    /// The next packet. After a refusal it is as if it had not come.
    pub(super) fn accept(
        &mut self,
        fragment: Fragment,
        packet: &Packet<'_>,
        mtu: Mtu,
        target: &mut impl Target,
    ) -> Result<(), Refusal> {
        let message = match (self.message, fragment.begins) {
            (None, Some(begun)) => begun,
            (Some(message), None)
                if fragment.is_send == matches!(message, Message::Send { .. }) =>
            {
                message
            }
            _ => return Err(Refusal::InvalidRequest),
        };
        let length = packet.payload.len() as u32;
        let fits = match fragment.ends() {
            true => length <= mtu.bytes() && (length > 0 || fragment.begins()),
            false => length == mtu.bytes(),
        };
        if !fits {
            return Err(Refusal::InvalidRequest);
        }
        let rest = match message {
            Message::Send { arrived } => self.accept_send(fragment, arrived, packet, target)?,
            Message::Write { reth, arrived } => {
                self.accept_write(fragment, reth, arrived, packet, target)?
            }
        };
        self.message = if fragment.ends() { None } else { Some(rest) };
        Ok(())
    }

    fn accept_send(
        &mut self,
        fragment: Fragment,
        before: u32,
        packet: &Packet<'_>,
        target: &mut impl Target,
    ) -> Result<Message, Refusal> {
        let arrived = before + packet.payload.len() as u32;
        if arrived > MAX_MESSAGE {
            return Err(Refusal::InvalidRequest);
        }
        self.take_receive(target)?;
        if !packet.payload.is_empty() {
            target.place(before, packet.payload)?;
        }
        if let Some(End::Send(end)) = fragment.end {
            self.complete(Received::Send(end), arrived, packet, target)?;
        }
        Ok(Message::Send { arrived })
    }

    fn accept_write(
        &mut self,
        fragment: Fragment,
        reth: Reth,
        before: u32,
        packet: &Packet<'_>,
        target: &mut impl Target,
    ) -> Result<Message, Refusal> {
        let arrived = before + packet.payload.len() as u32;
        let fits = if fragment.ends() { arrived == reth.length } else { arrived < reth.length };
        if !fits || reth.length > MAX_MESSAGE {
            return Err(Refusal::InvalidRequest);
        }
        let remote = Remote::from(reth);
        if fragment.begins() && reth.length > 0 {
            target.check(Access::Write, remote, reth.length)?;
        }
        let immediate = match fragment.end {
            Some(End::Write(immediate)) => immediate,
            _ => None,
        };
        if immediate.is_some() {
            self.take_receive(target)?;
        }
        if !packet.payload.is_empty() {
            target.write(remote.at(before), packet.payload)?;
        }
        if let Some(immediate) = immediate {
            self.complete(Received::Write(immediate), reth.length, packet, target)?;
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
