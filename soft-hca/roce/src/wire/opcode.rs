//! Operations of packets: the opcode of the base header, and the extended headers that go with it.
//! IBTA volume 1, 9.2.2, table 38; `rxe_opcode.c`.
//!
//! The upper three bits of an opcode are the [`Service`], the lower five the operation. Only those
//! that RoCE v2 adapters and rxe have are known here: no reliable datagrams, no XRC.
//!
//! | code | operation | headers | RC 00 | UC 20 | UD 60 |
//! | --- | --- | --- | --- | --- | --- |
//! | 00, 01 | send first, middle | | x | x | |
//! | 02, 03 | send last, with immediate | - or ImmDt | x | x | |
//! | 04, 05 | send only, with immediate | - or ImmDt | x | x | DETH first |
//! | 06 | write first | RETH | x | x | |
//! | 07 | write middle | | x | x | |
//! | 08, 09 | write last, with immediate | - or ImmDt | x | x | |
//! | 0a, 0b | write only, with immediate | RETH, - or ImmDt | x | x | |
//! | 0c | read request | RETH | x | | |
//! | 0d, 0f, 10 | read response first, last, only | AETH | x | | |
//! | 0e | read response middle | | x | | |
//! | 11 | acknowledge | AETH | x | | |
//! | 12 | atomic acknowledge | AETH, AtomicAckETH | x | | |
//! | 13, 14 | compare and swap, fetch and add | AtomicETH | x | | |
//! | 16, 17 | send last, only with invalidate | IETH | x | | |
//! | 1c | flush | FETH, RETH | x | | |
//! | 1d | atomic write | RETH, and 8 bytes of payload | x | | |
//!
//! Opcode 81 is a congestion notification, without a service.

use super::headers::{ATOMIC_ACK_ETH_BYTES, Aeth, AtomicEth, Deth, Feth, Immediate, Reth};
use serde::{Deserialize, Serialize};

/// How a packet's queue pairs are connected: the upper three bits of the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Service {
    /// Reliable connection.
    Rc = 0x00,
    /// Unreliable connection.
    Uc = 0x20,
    /// Unreliable datagram.
    Ud = 0x60,
    /// None: a congestion notification.
    Cnp = 0x80,
}

/// How a send ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SendEnd {
    /// With nothing more.
    Plain,
    /// With immediate data.
    Immediate(Immediate),
    /// With a key of the receiver that is to be invalidated; RC only.
    Invalidate(u32),
}

/// The operation of a packet, with its extended headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum Operation {
    SendFirst,
    SendMiddle,
    SendLast(SendEnd),
    SendOnly(SendEnd),
    WriteFirst(Reth),
    WriteMiddle,
    WriteLast(Option<Immediate>),
    WriteOnly(Reth, Option<Immediate>),
    ReadRequest(Reth),
    ReadResponseFirst(Aeth),
    ReadResponseMiddle,
    ReadResponseLast(Aeth),
    ReadResponseOnly(Aeth),
    Acknowledge(Aeth),
    /// With the number's original value.
    AtomicAcknowledge(Aeth, u64),
    CompareSwap(AtomicEth),
    FetchAdd(AtomicEth),
    Flush(Feth, Reth),
    AtomicWrite(Reth),
    /// A datagram's send: the only operation of [`Service::Ud`].
    Datagram(Deth, Option<Immediate>),
    /// The only one of [`Service::Cnp`].
    CongestionNotification,
}

/// The specification's name of an opcode, such as `RC_SEND_ONLY`; `None` for one that is not known here.
pub fn name(opcode: u8) -> Option<String> {
    let service = match opcode & SERVICE_BITS {
        bits if bits == Service::Rc as u8 => "RC",
        bits if bits == Service::Uc as u8 => "UC",
        bits if bits == Service::Ud as u8 => "UD",
        _ if opcode == Service::Cnp as u8 | code::CONGESTION_NOTIFICATION => {
            return Some("CNP".into());
        }
        _ => return None,
    };
    let operation = match opcode & !SERVICE_BITS {
        code::SEND_FIRST => "SEND_FIRST",
        code::SEND_MIDDLE => "SEND_MIDDLE",
        code::SEND_LAST => "SEND_LAST",
        code::SEND_LAST_IMMEDIATE => "SEND_LAST_WITH_IMMEDIATE",
        code::SEND_ONLY => "SEND_ONLY",
        code::SEND_ONLY_IMMEDIATE => "SEND_ONLY_WITH_IMMEDIATE",
        code::WRITE_FIRST => "RDMA_WRITE_FIRST",
        code::WRITE_MIDDLE => "RDMA_WRITE_MIDDLE",
        code::WRITE_LAST => "RDMA_WRITE_LAST",
        code::WRITE_LAST_IMMEDIATE => "RDMA_WRITE_LAST_WITH_IMMEDIATE",
        code::WRITE_ONLY => "RDMA_WRITE_ONLY",
        code::WRITE_ONLY_IMMEDIATE => "RDMA_WRITE_ONLY_WITH_IMMEDIATE",
        code::READ_REQUEST => "RDMA_READ_REQUEST",
        code::READ_RESPONSE_FIRST => "RDMA_READ_RESPONSE_FIRST",
        code::READ_RESPONSE_MIDDLE => "RDMA_READ_RESPONSE_MIDDLE",
        code::READ_RESPONSE_LAST => "RDMA_READ_RESPONSE_LAST",
        code::READ_RESPONSE_ONLY => "RDMA_READ_RESPONSE_ONLY",
        code::ACKNOWLEDGE => "ACKNOWLEDGE",
        code::ATOMIC_ACKNOWLEDGE => "ATOMIC_ACKNOWLEDGE",
        code::COMPARE_SWAP => "COMPARE_SWAP",
        code::FETCH_ADD => "FETCH_ADD",
        code::SEND_LAST_INVALIDATE => "SEND_LAST_WITH_INVALIDATE",
        code::SEND_ONLY_INVALIDATE => "SEND_ONLY_WITH_INVALIDATE",
        code::FLUSH => "FLUSH",
        code::ATOMIC_WRITE => "ATOMIC_WRITE",
        _ => return None,
    };
    Some(format!("{service}_{operation}"))
}

/// The lower five bits of an opcode.
mod code {
    pub const SEND_FIRST: u8 = 0x00;
    pub const SEND_MIDDLE: u8 = 0x01;
    pub const SEND_LAST: u8 = 0x02;
    pub const SEND_LAST_IMMEDIATE: u8 = 0x03;
    pub const SEND_ONLY: u8 = 0x04;
    pub const SEND_ONLY_IMMEDIATE: u8 = 0x05;
    pub const WRITE_FIRST: u8 = 0x06;
    pub const WRITE_MIDDLE: u8 = 0x07;
    pub const WRITE_LAST: u8 = 0x08;
    pub const WRITE_LAST_IMMEDIATE: u8 = 0x09;
    pub const WRITE_ONLY: u8 = 0x0a;
    pub const WRITE_ONLY_IMMEDIATE: u8 = 0x0b;
    pub const READ_REQUEST: u8 = 0x0c;
    pub const READ_RESPONSE_FIRST: u8 = 0x0d;
    pub const READ_RESPONSE_MIDDLE: u8 = 0x0e;
    pub const READ_RESPONSE_LAST: u8 = 0x0f;
    pub const READ_RESPONSE_ONLY: u8 = 0x10;
    pub const ACKNOWLEDGE: u8 = 0x11;
    pub const ATOMIC_ACKNOWLEDGE: u8 = 0x12;
    pub const COMPARE_SWAP: u8 = 0x13;
    pub const FETCH_ADD: u8 = 0x14;
    pub const SEND_LAST_INVALIDATE: u8 = 0x16;
    pub const SEND_ONLY_INVALIDATE: u8 = 0x17;
    pub const FLUSH: u8 = 0x1c;
    pub const ATOMIC_WRITE: u8 = 0x1d;
    pub const CONGESTION_NOTIFICATION: u8 = 0x01;
}

const SERVICE_BITS: u8 = 0xe0;

/// A reader that takes headers one by one. Without enough bytes there is no header.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(taken)
    }

    fn reth(&mut self) -> Option<Reth> {
        self.take().map(Reth::decode)
    }

    fn aeth(&mut self) -> Option<Aeth> {
        self.take().map(Aeth::decode)
    }

    fn atomic(&mut self) -> Option<AtomicEth> {
        self.take().map(AtomicEth::decode)
    }

    fn immediate(&mut self) -> Option<Immediate> {
        self.take().copied()
    }

    fn invalidate(&mut self) -> Option<SendEnd> {
        self.take().map(|rkey| SendEnd::Invalidate(u32::from_be_bytes(*rkey)))
    }
}

/// A writer that puts headers one by one.
pub(super) struct Writer<'a> {
    bytes: &'a mut [u8],
    /// Bytes that would have been written if there were room for all.
    pub(super) length: usize,
}

impl<'a> Writer<'a> {
    pub(super) fn new(bytes: &'a mut [u8]) -> Writer<'a> {
        Writer { bytes, length: 0 }
    }

    pub(super) fn put<const N: usize>(&mut self, header: [u8; N]) {
        if let Some(to) = self.bytes.get_mut(self.length..self.length + N) {
            to.copy_from_slice(&header);
        }
        self.length += N;
    }
}

impl Service {
    /// The service of an opcode, if the opcode is known.
    pub fn of(opcode: u8) -> Option<Self> {
        let code = opcode & !SERVICE_BITS;
        let service = match opcode & SERVICE_BITS {
            0x00 => Service::Rc,
            0x20 => Service::Uc,
            0x60 => Service::Ud,
            0x80 => Service::Cnp,
            _ => return None,
        };
        service.has(code).then_some(service)
    }

    const fn has(self, code: u8) -> bool {
        match self {
            Service::Rc => matches!(code, 0..=0x14 | 0x16 | 0x17 | 0x1c | 0x1d),
            Service::Uc => code <= code::WRITE_ONLY_IMMEDIATE,
            Service::Ud => matches!(code, code::SEND_ONLY | code::SEND_ONLY_IMMEDIATE),
            Service::Cnp => code == code::CONGESTION_NOTIFICATION,
        }
    }
}

impl Operation {
    /// Reads the extended headers that an opcode says. `None` if one is missing, or for an opcode
    /// that the service does not have.
    // Inlined, the operation is made where it stays; copied, it costs a third of a packet's time.
    #[inline(always)]
    pub(super) fn read(service: Service, opcode: u8, reader: &mut Reader<'_>) -> Option<Operation> {
        let code = opcode & !SERVICE_BITS;
        match service {
            Service::Cnp => return Some(Operation::CongestionNotification),
            Service::Ud => {
                let deth = Deth::decode(reader.take()?);
                let has_immediate = code == code::SEND_ONLY_IMMEDIATE;
                let immediate = if has_immediate { Some(reader.immediate()?) } else { None };
                return Some(Operation::Datagram(deth, immediate));
            }
            Service::Rc | Service::Uc => {}
        }
        Some(match code {
            code::SEND_FIRST => Operation::SendFirst,
            code::SEND_MIDDLE => Operation::SendMiddle,
            code::SEND_LAST => Operation::SendLast(SendEnd::Plain),
            code::SEND_LAST_IMMEDIATE => {
                Operation::SendLast(SendEnd::Immediate(reader.immediate()?))
            }
            code::SEND_LAST_INVALIDATE => Operation::SendLast(reader.invalidate()?),
            code::SEND_ONLY => Operation::SendOnly(SendEnd::Plain),
            code::SEND_ONLY_IMMEDIATE => {
                Operation::SendOnly(SendEnd::Immediate(reader.immediate()?))
            }
            code::SEND_ONLY_INVALIDATE => Operation::SendOnly(reader.invalidate()?),
            code::WRITE_FIRST => Operation::WriteFirst(reader.reth()?),
            code::WRITE_MIDDLE => Operation::WriteMiddle,
            code::WRITE_LAST => Operation::WriteLast(None),
            code::WRITE_LAST_IMMEDIATE => Operation::WriteLast(Some(reader.immediate()?)),
            code::WRITE_ONLY => Operation::WriteOnly(reader.reth()?, None),
            code::WRITE_ONLY_IMMEDIATE => {
                Operation::WriteOnly(reader.reth()?, Some(reader.immediate()?))
            }
            code::READ_REQUEST => Operation::ReadRequest(reader.reth()?),
            code::READ_RESPONSE_FIRST => Operation::ReadResponseFirst(reader.aeth()?),
            code::READ_RESPONSE_MIDDLE => Operation::ReadResponseMiddle,
            code::READ_RESPONSE_LAST => Operation::ReadResponseLast(reader.aeth()?),
            code::READ_RESPONSE_ONLY => Operation::ReadResponseOnly(reader.aeth()?),
            code::ACKNOWLEDGE => Operation::Acknowledge(reader.aeth()?),
            code::ATOMIC_ACKNOWLEDGE => {
                let aeth = reader.aeth()?;
                let original = reader.take::<ATOMIC_ACK_ETH_BYTES>()?;
                Operation::AtomicAcknowledge(aeth, u64::from_be_bytes(*original))
            }
            code::COMPARE_SWAP => Operation::CompareSwap(reader.atomic()?),
            code::FETCH_ADD => Operation::FetchAdd(reader.atomic()?),
            code::FLUSH => {
                let feth = Feth::decode(reader.take()?);
                Operation::Flush(feth, reader.reth()?)
            }
            code::ATOMIC_WRITE => Operation::AtomicWrite(reader.reth()?),
            _ => return None,
        })
    }

    /// Writes the extended headers.
    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        match *self {
            Operation::SendFirst
            | Operation::SendMiddle
            | Operation::SendLast(SendEnd::Plain)
            | Operation::SendOnly(SendEnd::Plain)
            | Operation::WriteMiddle
            | Operation::WriteLast(None)
            | Operation::ReadResponseMiddle
            | Operation::CongestionNotification => {}
            Operation::SendLast(SendEnd::Immediate(immediate))
            | Operation::SendOnly(SendEnd::Immediate(immediate))
            | Operation::WriteLast(Some(immediate)) => writer.put(immediate),
            Operation::SendLast(SendEnd::Invalidate(rkey))
            | Operation::SendOnly(SendEnd::Invalidate(rkey)) => writer.put(rkey.to_be_bytes()),
            Operation::WriteFirst(reth)
            | Operation::WriteOnly(reth, None)
            | Operation::ReadRequest(reth)
            | Operation::AtomicWrite(reth) => writer.put(reth.encode()),
            Operation::WriteOnly(reth, Some(immediate)) => {
                writer.put(reth.encode());
                writer.put(immediate);
            }
            Operation::ReadResponseFirst(aeth)
            | Operation::ReadResponseLast(aeth)
            | Operation::ReadResponseOnly(aeth)
            | Operation::Acknowledge(aeth) => writer.put(aeth.encode()),
            Operation::AtomicAcknowledge(aeth, original) => {
                writer.put(aeth.encode());
                writer.put(original.to_be_bytes());
            }
            Operation::CompareSwap(atomic) | Operation::FetchAdd(atomic) => {
                writer.put(atomic.encode());
            }
            Operation::Flush(feth, reth) => {
                writer.put(feth.encode());
                writer.put(reth.encode());
            }
            Operation::Datagram(deth, immediate) => {
                writer.put(deth.encode());
                if let Some(immediate) = immediate {
                    writer.put(immediate);
                }
            }
        }
    }

    /// The opcode, if the service has the operation.
    pub fn opcode(&self, service: Service) -> Option<u8> {
        let is_datagram = matches!(self, Operation::Datagram(..));
        let is_notification = matches!(self, Operation::CongestionNotification);
        let code = self.code();
        let fits = is_datagram == (service == Service::Ud)
            && is_notification == (service == Service::Cnp)
            && service.has(code);
        fits.then_some(service as u8 | code)
    }

    const fn code(&self) -> u8 {
        match self {
            Operation::SendFirst => code::SEND_FIRST,
            Operation::SendMiddle => code::SEND_MIDDLE,
            Operation::SendLast(SendEnd::Plain) => code::SEND_LAST,
            Operation::SendLast(SendEnd::Immediate(_)) => code::SEND_LAST_IMMEDIATE,
            Operation::SendLast(SendEnd::Invalidate(_)) => code::SEND_LAST_INVALIDATE,
            Operation::SendOnly(SendEnd::Plain) | Operation::Datagram(_, None) => code::SEND_ONLY,
            Operation::SendOnly(SendEnd::Immediate(_)) | Operation::Datagram(_, Some(_)) => {
                code::SEND_ONLY_IMMEDIATE
            }
            Operation::SendOnly(SendEnd::Invalidate(_)) => code::SEND_ONLY_INVALIDATE,
            Operation::WriteFirst(_) => code::WRITE_FIRST,
            Operation::WriteMiddle => code::WRITE_MIDDLE,
            Operation::WriteLast(None) => code::WRITE_LAST,
            Operation::WriteLast(Some(_)) => code::WRITE_LAST_IMMEDIATE,
            Operation::WriteOnly(_, None) => code::WRITE_ONLY,
            Operation::WriteOnly(_, Some(_)) => code::WRITE_ONLY_IMMEDIATE,
            Operation::ReadRequest(_) => code::READ_REQUEST,
            Operation::ReadResponseFirst(_) => code::READ_RESPONSE_FIRST,
            Operation::ReadResponseMiddle => code::READ_RESPONSE_MIDDLE,
            Operation::ReadResponseLast(_) => code::READ_RESPONSE_LAST,
            Operation::ReadResponseOnly(_) => code::READ_RESPONSE_ONLY,
            Operation::Acknowledge(_) => code::ACKNOWLEDGE,
            Operation::AtomicAcknowledge(..) => code::ATOMIC_ACKNOWLEDGE,
            Operation::CompareSwap(_) => code::COMPARE_SWAP,
            Operation::FetchAdd(_) => code::FETCH_ADD,
            Operation::Flush(..) => code::FLUSH,
            Operation::AtomicWrite(_) => code::ATOMIC_WRITE,
            Operation::CongestionNotification => code::CONGESTION_NOTIFICATION,
        }
    }

    /// The header of an answer that has one.
    pub const fn aeth(&self) -> Option<Aeth> {
        match *self {
            Operation::ReadResponseFirst(aeth)
            | Operation::ReadResponseLast(aeth)
            | Operation::ReadResponseOnly(aeth)
            | Operation::Acknowledge(aeth)
            | Operation::AtomicAcknowledge(aeth, _) => Some(aeth),
            _ => None,
        }
    }

    /// Whether a responder sends it, to a requester.
    pub const fn is_response(&self) -> bool {
        matches!(
            self,
            Operation::ReadResponseFirst(_)
                | Operation::ReadResponseMiddle
                | Operation::ReadResponseLast(_)
                | Operation::ReadResponseOnly(_)
                | Operation::Acknowledge(_)
                | Operation::AtomicAcknowledge(..)
        )
    }

    /// Whether anything may follow the headers.
    pub const fn has_payload(&self) -> bool {
        !matches!(
            self,
            Operation::ReadRequest(_)
                | Operation::Acknowledge(_)
                | Operation::AtomicAcknowledge(..)
                | Operation::CompareSwap(_)
                | Operation::FetchAdd(_)
                | Operation::Flush(..)
        )
    }
}
