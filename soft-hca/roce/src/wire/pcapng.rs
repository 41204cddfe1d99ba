//! Recordings that Wireshark reads: pcapng (draft-ietf-opsawg-pcapng). A link sees neither IP nor
//! UDP headers, so they are made up around each packet.
//!
//! ```text
//! +-----------------+---------------------+--------------------------------------------+
//! | section header  | interface: raw IP,  | enhanced packet: time, direction, comment, |  ...
//! |                 | nanoseconds         | IP + UDP + packet                          |
//! +-----------------+---------------------+--------------------------------------------+
//!  each: | type 4 | length 4 | body | options: (code 2, length 2, value)... | length 4 |
//! ```
//!
//! Blocks are little-endian and their parts are padded to multiples of 4; each is written in one
//! piece, so that of a recording that is cut off all whole packets are there.

use std::io::{self, Write};
use std::time::Duration;

use super::icrc::Right;
use super::ip::{Addresses, Flow, IpHeader, UDP_BYTES, checksum};

/// Which way a packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To this link.
    Received,
    /// From this link.
    Sent,
}

/// A packet of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Since 1970.
    pub time: Duration,
    /// Which way it went.
    pub direction: Direction,
    /// Addresses and ports.
    pub flow: Flow,
    /// IPv4's identification, as far as known.
    pub id: u16,
    /// IPv4's flag DF.
    pub dont_fragment: bool,
    /// Type of service, or traffic class.
    pub traffic_class: u8,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// The UDP payload, with the ICRC.
    pub packet: &'a [u8],
    /// A comment; none if it is empty. Of more than 64 KiB the beginning
    /// counts.
    pub comment: &'a str,
}

impl<'a> Record<'a> {
    /// A packet as our own sockets send it, see [`IpHeader::new`], without a comment.
    pub fn new(time: Duration, direction: Direction, flow: Flow, packet: &'a [u8]) -> Record<'a> {
        let ip = IpHeader::new(flow.addresses, packet.len());
        Record {
            time,
            direction,
            flow,
            id: ip.id,
            dont_fragment: ip.dont_fragment,
            traffic_class: ip.traffic_class,
            hop_limit: ip.hop_limit,
            packet,
            comment: "",
        }
    }

    /// With the id that [`icrc::check`](super::icrc::check) has found.
    pub fn with_id(self, right: Right) -> Record<'a> {
        match right {
            Right::V4 { id, dont_fragment } => Record { id, dont_fragment, ..self },
            Right::V6 => self,
        }
    }
}

/// Blocks' types.
mod block {
    pub const SECTION_HEADER: u32 = 0x0a0d_0d0a;
    pub const INTERFACE: u32 = 1;
    pub const ENHANCED_PACKET: u32 = 6;
}

/// Options' codes; 1 is the same in all blocks.
mod option {
    pub const END: u16 = 0;
    pub const COMMENT: u16 = 1;
    pub const SECTION_APPLICATION: u16 = 4;
    pub const INTERFACE_NAME: u16 = 2;
    pub const INTERFACE_RESOLUTION: u16 = 9;
    pub const PACKET_FLAGS: u16 = 2;
}

/// `LINKTYPE_RAW`: a packet begins with its IP header.
const LINK_TYPE: u16 = 101;
/// Times are in 10^-9 s.
const RESOLUTION: u8 = 9;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const VERSION: (u16, u16) = (1, 0);

/// A recording of one interface.
#[derive(Debug)]
pub struct Recording<W> {
    to: W,
    /// The block that is being made.
    block: Vec<u8>,
}

impl<W: Write> Recording<W> {
    /// Begins a recording; the name is that of the interface.
    pub fn new(to: W, interface: &str) -> io::Result<Recording<W>> {
        let mut recording = Recording { to, block: Vec::new() };
        recording.begin(block::SECTION_HEADER);
        recording.put(&BYTE_ORDER.to_le_bytes());
        recording.put(&VERSION.0.to_le_bytes());
        recording.put(&VERSION.1.to_le_bytes());
        // Nobody knows yet how long the section will be.
        recording.put(&u64::MAX.to_le_bytes());
        recording.option(option::SECTION_APPLICATION, b"soft-hca");
        recording.end()?;
        recording.begin(block::INTERFACE);
        recording.put(&u32::from(LINK_TYPE).to_le_bytes());
        // Packets of any length.
        recording.put(&0u32.to_le_bytes());
        recording.option(option::INTERFACE_NAME, text(interface));
        recording.option(option::INTERFACE_RESOLUTION, &[RESOLUTION]);
        recording.end()?;
        Ok(recording)
    }

    /// Records a packet.
    pub fn record(&mut self, record: &Record<'_>) -> io::Result<()> {
        self.begin(block::ENHANCED_PACKET);
        let time = record.time.as_nanos() as u64;
        let interface = 0;
        let length = record.flow.addresses.header_bytes() + UDP_BYTES + record.packet.len();
        for number in [interface, (time >> 32) as u32, time as u32, length as u32, length as u32] {
            self.put(&number.to_le_bytes());
        }
        self.ip_and_udp(record);
        self.put(record.packet);
        self.pad();
        let direction: u32 = match record.direction {
            Direction::Received => 1,
            Direction::Sent => 2,
        };
        self.option(option::PACKET_FLAGS, &direction.to_le_bytes());
        if !record.comment.is_empty() {
            self.option(option::COMMENT, text(record.comment));
        }
        self.end()
    }

    /// Flushes what the recording is written to.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// The writer that the recording goes to, with all that was held back.
    pub fn into_inner(self) -> W {
        self.to
    }

    fn ip_and_udp(&mut self, record: &Record<'_>) {
        let ip = IpHeader {
            addresses: record.flow.addresses,
            traffic_class: record.traffic_class,
            flow_label: 0,
            hop_limit: record.hop_limit,
            id: record.id,
            dont_fragment: record.dont_fragment,
            packet: record.packet.len(),
        };
        let grh = ip.grh();
        self.put(&grh[grh.len() - record.flow.addresses.header_bytes()..]);
        let mut udp = record.flow.udp(record.packet.len());
        let [c0, c1] = udp_checksum(&record.flow.addresses, &udp, record.packet).to_be_bytes();
        (udp[6], udp[7]) = (c0, c1);
        self.put(&udp);
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.put(&kind.to_le_bytes());
        // The length, which `end` knows.
        self.put(&[0; 4]);
    }

    fn end(&mut self) -> io::Result<()> {
        self.option(option::END, &[]);
        let length = (self.block.len() as u32 + 4).to_le_bytes();
        self.block[4..8].copy_from_slice(&length);
        self.put(&length);
        self.to.write_all(&self.block)
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.put(&code.to_le_bytes());
        self.put(&(value.len() as u16).to_le_bytes());
        self.put(value);
        self.pad();
    }

    fn put(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }
}

/// As much of a text as an option takes.
fn text(text: &str) -> &[u8] {
    let mut end = text.len().min(u16::MAX.into());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text.as_bytes()[..end]
}

/// The checksum of UDP, over what RFC 768 and RFC 8200 put before it, too.
fn udp_checksum(addresses: &Addresses, udp: &[u8; UDP_BYTES], packet: &[u8]) -> u16 {
    let mut all = Vec::with_capacity(40 + UDP_BYTES + packet.len());
    match addresses {
        Addresses::V4 { source, destination } => {
            all.extend(source.octets());
            all.extend(destination.octets());
        }
        Addresses::V6 { source, destination } => {
            all.extend(source.octets());
            all.extend(destination.octets());
        }
    }
    // Protocol and length, of which IPv6 has wider ones with zeros in front.
    all.extend([0, 17, udp[4], udp[5]]);
    all.extend(udp);
    all.extend(packet);
    match checksum(&all) {
        // 0 would say that there is none.
        0 => u16::MAX,
        sum => sum,
    }
}

#[cfg(test)]
mod tests;
