//! A whole packet: what a UDP datagram to port [`PORT`] holds.
//!
//! ```text
//! +--------+------------------+-----------------+----------+--------+
//! | BTH 12 | extended headers | payload         | pad 0-3  | ICRC 4 |
//! |        | as the opcode    | 0 to MTU bytes  | zeros    |        |
//! |        | says, 0 to 28    |                 |          |        |
//! +--------+------------------+-----------------+----------+--------+
//!  `--------- Headers -------' `--- a slice ---'           `- icrc -'
//!  `------------------------ Packet -----------'
//! ```
//!
//! The length is a multiple of 4. This module neither makes nor checks the ICRC:
//! [`icrc`](super::icrc) does. IBTA volume 1, chapter 9, and annex A17 (RoCE v2).

use std::ops::Range;

use thiserror::Error;

use super::bth::{Bth, DEFAULT_PKEY, Psn, Qpn};
use super::opcode::{Operation, Reader, Service, Writer};

/// The UDP port that RoCE v2 packets are sent to.
pub const PORT: u16 = 4791;
/// Bytes of the ICRC, a packet's last.
pub const ICRC_BYTES: usize = 4;
/// The largest path MTU, in bytes of payload.
pub const MAX_PAYLOAD: usize = 4096;
/// Bytes of extended headers that a packet with a full payload has at most: RETH, ImmDt.
const MAX_EXTENDED: usize = 20;
/// The longest packet: bytes of UDP payload.
pub const MAX_BYTES: usize = Bth::BYTES + MAX_EXTENDED + MAX_PAYLOAD + ICRC_BYTES;

/// Why a datagram is dropped without an answer, as rxe does (`rxe_recv.c`). Lengths and pads that
/// do not fit are not looked at by rxe.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropReason {
    /// Shorter than its headers and the ICRC.
    #[error("shorter than its headers")]
    Short,
    /// Longer than [`MAX_BYTES`], or with more payload than [`MAX_PAYLOAD`].
    #[error("longer than a packet can be")]
    Long,
    /// The length is no multiple of 4.
    #[error("a length that is no multiple of 4")]
    Unaligned,
    /// The opcode is not known.
    #[error("unknown opcode {0:#04x}")]
    Opcode(u8),
    /// The version of the transport is not [`Bth::VERSION`].
    #[error("unknown transport version {0}")]
    Version(u8),
    /// Queue pair 0, which RoCE does not have.
    #[error("for queue pair 0")]
    QueuePair0,
    /// More pad than payload.
    #[error("more pad than payload")]
    Pad,
    /// An operation that has no payload has some.
    #[error("a payload where none can be")]
    Payload,
}

/// Why a packet cannot be built.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The service does not have the operation.
    #[error("the service does not have the operation")]
    Operation,
    /// The operation has no payload.
    #[error("the operation has no payload")]
    Payload,
    /// The payload is longer than [`MAX_PAYLOAD`].
    #[error("a payload of {0} bytes is too long")]
    Long(usize),
    /// The buffer is too small.
    #[error("the packet needs {0} bytes")]
    Room(usize),
}

/// All that is before the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The service.
    pub service: Service,
    /// The packet's operation, with its extended headers.
    pub operation: Operation,
    /// The receiver is to have an event.
    pub solicited: bool,
    /// The connection's path is the one it has migrated to; nobody looks at it.
    pub mig_req: bool,
    /// The partition.
    pub pkey: u16,
    /// The packet met congestion (InfiniBand only).
    pub fecn: bool,
    /// Packets the other way met congestion.
    pub becn: bool,
    /// The queue pair that the packet is for.
    pub dest_qpn: Qpn,
    /// An acknowledgement is wanted.
    pub ack_req: bool,
    /// The packet's sequence number.
    pub psn: Psn,
}

/// Where the parts of a packet lie in a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layout {
    /// The payload, between headers and pad.
    pub payload: Range<usize>,
    /// Bytes of the whole packet, with the ICRC.
    pub length: usize,
}

impl Headers {
    /// Headers as adapters send them: migrated, in the default partition, no flags.
    pub const fn new(service: Service, operation: Operation, dest_qpn: Qpn, psn: Psn) -> Headers {
        Headers {
            service,
            operation,
            solicited: false,
            mig_req: true,
            pkey: DEFAULT_PKEY,
            fecn: false,
            becn: false,
            dest_qpn,
            ack_req: false,
            psn,
        }
    }

    /// Writes headers and pad into a buffer, around `payload` bytes that the caller puts there.
    pub fn build(&self, payload: usize, buffer: &mut [u8]) -> Result<Layout, BuildError> {
        let opcode = self.operation.opcode(self.service).ok_or(BuildError::Operation)?;
        if payload > MAX_PAYLOAD {
            return Err(BuildError::Long(payload));
        }
        if payload > 0 && !self.operation.has_payload() {
            return Err(BuildError::Payload);
        }
        let pad = payload.wrapping_neg() % 4;
        let bth = Bth {
            opcode,
            solicited: self.solicited,
            mig_req: self.mig_req,
            pad: pad as u8,
            version: Bth::VERSION,
            pkey: self.pkey,
            fecn: self.fecn,
            becn: self.becn,
            dest_qpn: self.dest_qpn,
            ack_req: self.ack_req,
            psn: self.psn,
        };
        let mut writer = Writer::new(buffer);
        writer.put(bth.encode());
        self.operation.write(&mut writer);
        let start = writer.length;
        let end = start + payload;
        let length = end + pad + ICRC_BYTES;
        buffer.get_mut(..length).ok_or(BuildError::Room(length))?[end..end + pad].fill(0);
        Ok(Layout { payload: start..end, length })
    }
}

/// A packet: its headers, and its payload where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// All that is before the payload.
    pub headers: Headers,
    /// The payload, without pad.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Whether a packet can have this many bytes.
    pub const fn is_length(bytes: usize) -> bool {
        bytes >= Bth::BYTES + ICRC_BYTES && bytes <= MAX_BYTES && bytes % 4 == 0
    }

    /// Reads the payload of a UDP datagram. The ICRC is not looked at.
    pub fn parse(datagram: &'a [u8]) -> Result<Packet<'a>, DropReason> {
        if datagram.len() > MAX_BYTES {
            return Err(DropReason::Long);
        }
        if datagram.len() % 4 != 0 {
            return Err(DropReason::Unaligned);
        }
        let (covered, _icrc) =
            datagram.split_last_chunk::<ICRC_BYTES>().ok_or(DropReason::Short)?;
        let mut reader = Reader(covered);
        let bth = Bth::decode(reader.take().ok_or(DropReason::Short)?);
        if bth.version != Bth::VERSION {
            return Err(DropReason::Version(bth.version));
        }
        if bth.dest_qpn == Qpn::new(0) {
            return Err(DropReason::QueuePair0);
        }
        let service = Service::of(bth.opcode).ok_or(DropReason::Opcode(bth.opcode))?;
        let Some(operation) = Operation::read(service, bth.opcode, &mut reader) else {
            return Err(DropReason::Short);
        };
        let padded = reader.0;
        let length = padded.len().checked_sub(bth.pad.into()).ok_or(DropReason::Pad)?;
        if length > MAX_PAYLOAD {
            return Err(DropReason::Long);
        }
        if !padded.is_empty() && !operation.has_payload() {
            return Err(DropReason::Payload);
        }
        let headers = Headers {
            service,
            operation,
            solicited: bth.solicited,
            mig_req: bth.mig_req,
            pkey: bth.pkey,
            fecn: bth.fecn,
            becn: bth.becn,
            dest_qpn: bth.dest_qpn,
            ack_req: bth.ack_req,
            psn: bth.psn,
        };
        Ok(Packet { headers, payload: &padded[..length] })
    }

    /// Writes the packet into a buffer, all but the ICRC. The result is the packet's length with
    /// the ICRC, for which there is room at the end.
    pub fn build(&self, buffer: &mut [u8]) -> Result<usize, BuildError> {
        let layout = self.headers.build(self.payload.len(), buffer)?;
        buffer[layout.payload].copy_from_slice(self.payload);
        Ok(layout.length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::headers::{Feth, Reth};
    use crate::wire::samples;

    /// Bytes of the extended headers of every opcode that there is, from `rxe_opcode.c`.
    const EXTENDED: [(u8, usize); 42] = [
        (0x00, 0),
        (0x01, 0),
        (0x02, 0),
        (0x03, 4),
        (0x04, 0),
        (0x05, 4),
        (0x06, 16),
        (0x07, 0),
        (0x08, 0),
        (0x09, 4),
        (0x0a, 16),
        (0x0b, 20),
        (0x0c, 16),
        (0x0d, 4),
        (0x0e, 0),
        (0x0f, 4),
        (0x10, 4),
        (0x11, 4),
        (0x12, 12),
        (0x13, 28),
        (0x14, 28),
        (0x16, 4),
        (0x17, 4),
        (0x1c, 20),
        (0x1d, 16),
        (0x20, 0),
        (0x21, 0),
        (0x22, 0),
        (0x23, 4),
        (0x24, 0),
        (0x25, 4),
        (0x26, 16),
        (0x27, 0),
        (0x28, 0),
        (0x29, 4),
        (0x2a, 16),
        (0x2b, 20),
        (0x64, 8),
        (0x65, 12),
        (0x81, 0),
        // Not known: a reliable datagram, and what XRC's sends would be.
        (0x44, usize::MAX),
        (0xa4, usize::MAX),
    ];

    #[test]
    fn opcodes_have_their_headers() {
        for opcode in 0..=255 {
            let known = EXTENDED.iter().find(|known| known.0 == opcode).map(|known| known.1);
            let known = known.filter(|bytes| *bytes < usize::MAX);
            let mut datagram = [0; Bth::BYTES + 28 + ICRC_BYTES];
            datagram[..Bth::BYTES]
                .copy_from_slice(&Bth { opcode, dest_qpn: Qpn::new(1), ..Bth::default() }.encode());
            let Some(bytes) = known else {
                assert_eq!(Packet::parse(&datagram), Err(DropReason::Opcode(opcode)));
                continue;
            };
            let length = Bth::BYTES + bytes + ICRC_BYTES;
            let packet = Packet::parse(&datagram[..length]).unwrap();
            assert!(packet.payload.is_empty());
            assert_eq!(packet.headers.operation.opcode(packet.headers.service), Some(opcode));
            assert_eq!(Packet::parse(&datagram[..length - 4]), Err(DropReason::Short));
            let longer = Packet::parse(&datagram);
            if packet.headers.operation.has_payload() {
                assert_eq!(longer.unwrap().payload.len(), 28 - bytes);
            } else if bytes < 28 {
                assert_eq!(longer, Err(DropReason::Payload));
            }
        }
    }

    #[test]
    fn every_opcode_is_among_the_samples() {
        let sampled =
            samples::headers().into_iter().map(|h| h.operation.opcode(h.service).unwrap());
        let known = EXTENDED.iter().filter(|known| known.1 < usize::MAX).map(|known| known.0);
        assert!(sampled.eq(known));
    }

    #[test]
    fn a_flush_is_laid_out_as_the_kernel_does() {
        // `rxe_opcode.c`, IB_OPCODE_RC_FLUSH: BTH, FETH, RETH; `rxe_hdr.h`, struct rxe_feth.
        let reth = Reth { address: 0x0102_0304_0506_0708, rkey: 0x1122_3344, length: 0x5566 };
        let feth = Feth { placement: 2, selectivity: 1 };
        let headers =
            Headers::new(Service::Rc, Operation::Flush(feth, reth), Qpn::new(1), Psn::new(0));
        let mut buffer = [0; 64];
        let length = Packet { headers, payload: &[] }.build(&mut buffer).unwrap();
        assert_eq!(length, 12 + 4 + 16 + ICRC_BYTES);
        assert_eq!(buffer[0], 0x1c);
        assert_eq!(buffer[12..16], [0, 0, 0, 0x12]);
        assert_eq!(buffer[16..24], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(buffer[24..32], [0x11, 0x22, 0x33, 0x44, 0, 0, 0x55, 0x66]);
    }

    #[test]
    fn a_send_is_laid_out_as_the_kernel_does() {
        let operation = Operation::SendOnly(crate::wire::opcode::SendEnd::Plain);
        let headers = Headers {
            ack_req: true,
            ..Headers::new(Service::Rc, operation, Qpn::new(0x12_3456), Psn::new(0x100))
        };
        let mut buffer = [0xee; 32];
        let length = Packet { headers, payload: b"hello" }.build(&mut buffer).unwrap();
        let expected = b"\x04\x70\xff\xff\0\x12\x34\x56\x80\0\x01\0hello\0\0\0\xee\xee\xee\xee";
        assert_eq!(buffer[..length], expected[..]);
        let layout = headers.build(5, &mut buffer).unwrap();
        assert_eq!(layout, Layout { payload: 12..17, length: 24 });
    }

    #[test]
    fn what_cannot_be_is_not_built() {
        let psn = Psn::default();
        let build = |service, operation, payload| {
            Headers::new(service, operation, Qpn::new(1), psn).build(payload, &mut [0; 64])
        };
        let read = Operation::ReadRequest(crate::wire::headers::Reth::default());
        assert_eq!(build(Service::Uc, read, 0), Err(BuildError::Operation));
        assert_eq!(build(Service::Ud, Operation::SendFirst, 0), Err(BuildError::Operation));
        assert_eq!(build(Service::Cnp, Operation::SendMiddle, 0), Err(BuildError::Operation));
        assert_eq!(build(Service::Rc, read, 1), Err(BuildError::Payload));
        assert_eq!(build(Service::Rc, Operation::SendFirst, 4097), Err(BuildError::Long(4097)));
        assert_eq!(build(Service::Rc, Operation::SendFirst, 49), Err(BuildError::Room(68)));
        assert!(build(Service::Rc, Operation::SendFirst, 48).is_ok());
    }

    #[test]
    fn wrong_packets_are_dropped() {
        let mut good = [0; 20];
        Headers::new(Service::Rc, Operation::SendFirst, Qpn::new(1), Psn::default())
            .build(4, &mut good)
            .unwrap();
        let with = |at: usize, byte: u8| {
            let mut bad = good;
            bad[at] = byte;
            Packet::parse(&bad).map(|packet| packet.payload.len())
        };
        assert_eq!(with(1, 0x70), Ok(1));
        assert_eq!(with(1, 0x41), Err(DropReason::Version(1)));
        assert_eq!(with(7, 0), Err(DropReason::QueuePair0));
        assert_eq!(with(0, 0x15), Err(DropReason::Opcode(0x15)));
        assert_eq!(Packet::parse(&good[..19]), Err(DropReason::Unaligned));
        good[1] = 0x50;
        assert_eq!(Packet::parse(&good[..16]), Err(DropReason::Pad));
        for length in 0..16 {
            assert!(Packet::parse(&good[..length]).is_err());
        }
        let mut long = vec![0; MAX_BYTES + 4];
        long[..20].copy_from_slice(&good);
        long[1] = 0;
        assert_eq!(Packet::parse(&long), Err(DropReason::Long));
        assert_eq!(Packet::parse(&long[..MAX_BYTES]), Err(DropReason::Long));
        let most = Bth::BYTES + MAX_PAYLOAD + ICRC_BYTES;
        assert_eq!(Packet::parse(&long[..most]).unwrap().payload.len(), MAX_PAYLOAD);
    }

    proptest! {
        #[test]
        fn what_was_built_is_read(headers in samples::any_headers(), payload in samples::payload()) {
            let payload = if headers.operation.has_payload() { &payload[..] } else { &[] };
            let packet = Packet { headers, payload };
            let mut buffer = [0xa5; MAX_BYTES];
            let length = packet.build(&mut buffer).unwrap();
            prop_assert_eq!(Packet::parse(&buffer[..length]), Ok(packet));
        }

        #[test]
        fn nothing_random_panics_and_what_is_read_is_rebuilt(
            mut datagram in samples::datagram(),
        ) {
            if let Ok(packet) = Packet::parse(&datagram) {
                let mut buffer = vec![0; datagram.len()];
                let length = packet.build(&mut buffer).unwrap();
                // Pads may be larger than they have to be.
                prop_assert!(length <= datagram.len());
                prop_assert_eq!(Packet::parse(&buffer[..length]), Ok(packet));
            }
            datagram.truncate(15);
            prop_assert!(Packet::parse(&datagram).is_err());
        }
    }
}
