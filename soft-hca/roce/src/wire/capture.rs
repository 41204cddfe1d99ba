//! RoCE packets in recordings of whole frames, pcap and pcapng: those of tcpdump, QEMU, Wireshark
//! and [`pcapng`](super::pcapng). Other than a socket, a recording shows IPv4's id, so that the
//! ICRC is checked in full.
//!
//! ```text
//! pcap    | magic 4 | - 16 | link type 4 | { time 8 | kept 4 | length 4 | frame }...
//! pcapng  { type 4 | length 4 | body | length 4 }...   body of type 6: | interface 4 | time 8 |
//!                                                      kept 4 | length 4 | frame | options
//! ```

use thiserror::Error;

use super::bytes::array;
use super::icrc::{self, Right};
use super::ip::{Addresses, Flow, IPV4_BYTES, IPV6_BYTES, IpHeader, UDP_BYTES};
use super::packet::PORT;

/// A RoCE packet of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Captured {
    /// The IP header.
    pub ip: IpHeader,
    /// Addresses and ports.
    pub flow: Flow,
    /// The UDP payload.
    pub packet: Vec<u8>,
}

impl Captured {
    /// Whether the packet's ICRC fits its headers.
    pub fn is_right(&self) -> bool {
        let right = match self.flow.addresses {
            Addresses::V4 { .. } => {
                Right::V4 { id: self.ip.id, dont_fragment: self.ip.dont_fragment }
            }
            Addresses::V6 { .. } => Right::V6,
        };
        icrc::check(&self.flow, &self.packet) == Some(right)
    }
}

/// Why a recording cannot be read.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CaptureError {
    /// Neither pcap nor pcapng.
    #[error("neither pcap nor pcapng")]
    Format,
    /// It ends within a block or frame, or a length is wrong.
    #[error("broken at byte {0}")]
    Broken(usize),
    /// Frames are not recorded in full.
    #[error("the frame at byte {0} was not recorded in full")]
    Cut(usize),
    /// Frames of a network that is not known here.
    #[error("unknown link type {0}")]
    LinkType(u32),
}

/// All RoCE packets of a recording, in its order. Other frames are passed over.
pub fn packets(recording: &[u8]) -> Result<Vec<Captured>, CaptureError> {
    match recording.first_chunk() {
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => pcapng(recording),
        Some([0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1]) => pcap(recording, false),
        Some([0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d]) => pcap(recording, true),
        _ => Err(CaptureError::Format),
    }
}

/// The number at a place, in the order that the recording has.
fn u32_at(bytes: &[u8], at: usize, is_big: bool) -> Result<u32, CaptureError> {
    let number = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    let number = *number.ok_or(CaptureError::Broken(at))?;
    Ok(if is_big { u32::from_be_bytes(number) } else { u32::from_le_bytes(number) })
}

/// The frame behind its two lengths.
fn frame(bytes: &[u8], at: usize, is_big: bool) -> Result<&[u8], CaptureError> {
    let kept = u32_at(bytes, at, is_big)?;
    if u32_at(bytes, at + 4, is_big)? > kept {
        return Err(CaptureError::Cut(at));
    }
    bytes.get(at + 8..).and_then(|rest| rest.get(..kept as usize)).ok_or(CaptureError::Broken(at))
}

fn pcap(recording: &[u8], is_big: bool) -> Result<Vec<Captured>, CaptureError> {
    let link_type = u32_at(recording, 20, is_big)? & 0xffff;
    let mut packets = Vec::new();
    let mut at = 24;
    while at < recording.len() {
        let frame = frame(recording, at + 8, is_big)?;
        packets.extend(roce(ip(frame, link_type)?));
        at += 16 + frame.len();
    }
    Ok(packets)
}

fn pcapng(recording: &[u8]) -> Result<Vec<Captured>, CaptureError> {
    let mut packets = Vec::new();
    let mut link_types = Vec::new();
    let mut is_big = false;
    let mut at = 0;
    while at < recording.len() {
        let kind = u32_at(recording, at, is_big)?;
        if kind == 0x0a0d_0d0a {
            is_big = u32_at(recording, at + 8, true)? == 0x1a2b_3c4d;
            link_types.clear();
        }
        let length = u32_at(recording, at + 4, is_big)? as usize;
        let block = recording.get(at..).and_then(|rest| rest.get(..length));
        let block = block.filter(|_| length >= 12).ok_or(CaptureError::Broken(at))?;
        match kind {
            1 => {
                let link_type = u32_at(block, 8, is_big)?;
                link_types.push(if is_big { link_type >> 16 } else { link_type & 0xffff });
            }
            6 => {
                let interface = u32_at(block, 8, is_big)? as usize;
                let link_type = link_types.get(interface).ok_or(CaptureError::Broken(at))?;
                packets.extend(roce(ip(frame(block, 20, is_big)?, *link_type)?));
            }
            _ => {}
        }
        at += length;
    }
    Ok(packets)
}

/// What follows a frame's own header, if that is IP.
fn ip(frame: &[u8], link_type: u32) -> Result<Option<&[u8]>, CaptureError> {
    const IPV4: [u8; 2] = [0x08, 0x00];
    const IPV6: [u8; 2] = [0x86, 0xdd];
    const VLAN: [u8; 2] = [0x81, 0x00];
    let behind = |protocol: usize, payload: usize| {
        let kind: &[u8; 2] = frame.get(protocol..)?.first_chunk()?;
        [IPV4, IPV6].contains(kind).then_some(frame.get(payload..)?)
    };
    match link_type {
        // Ethernet.
        1 if frame.get(12..14) == Some(&VLAN) => Ok(behind(16, 18)),
        1 => Ok(behind(12, 14)),
        101 => Ok(Some(frame)),
        // tcpdump's "any" interface, two versions.
        113 => Ok(behind(14, 16)),
        276 => Ok(behind(0, 20)),
        other => Err(CaptureError::LinkType(other)),
    }
}

/// The RoCE packet behind an IP header, if there is one: UDP to the right port, no fragment.
fn roce(frame: Option<&[u8]>) -> Option<Captured> {
    const UDP: u8 = 17;
    let frame = frame?;
    let is_ipv6 = |header: &[u8; IPV6_BYTES]| header[0] >> 4 == 6;
    let (mut ip, udp) = if frame.first_chunk().is_some_and(is_ipv6) {
        let addresses = Addresses::V6 {
            source: array::<16>(frame, 8).into(),
            destination: array::<16>(frame, 24).into(),
        };
        let first = u32::from_be_bytes(array(frame, 0));
        let ip = IpHeader {
            traffic_class: (first >> 20) as u8,
            flow_label: first & 0xf_ffff,
            hop_limit: frame[7],
            ..IpHeader::new(addresses, 0)
        };
        (frame[6] == UDP).then_some((ip, &frame[IPV6_BYTES..]))?
    } else {
        let header: &[u8; IPV4_BYTES] = frame.first_chunk()?;
        let addresses = Addresses::V4 {
            source: array::<4>(header, 12).into(),
            destination: array::<4>(header, 16).into(),
        };
        let ip = IpHeader {
            traffic_class: header[1],
            hop_limit: header[8],
            id: u16::from_be_bytes(array(header, 4)),
            dont_fragment: header[6] & 0x40 != 0,
            ..IpHeader::new(addresses, 0)
        };
        let is_whole = u16::from_be_bytes(array(header, 6)) & 0x3fff == 0;
        let fits = header[0] == 0x45 && header[9] == UDP && is_whole;
        fits.then_some((ip, &frame[IPV4_BYTES..]))?
    };
    let header: &[u8; UDP_BYTES] = udp.first_chunk()?;
    let flow = Flow {
        addresses: ip.addresses,
        source_port: u16::from_be_bytes(array(header, 0)),
        destination_port: u16::from_be_bytes(array(header, 2)),
    };
    // Short frames have pad behind the datagram.
    let length = usize::from(u16::from_be_bytes(array(header, 4)));
    let packet = udp.get(UDP_BYTES..length)?.to_vec();
    ip.packet = packet.len();
    (flow.destination_port == PORT).then_some(Captured { ip, flow, packet })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wire::pcapng::{Direction, Record, Recording};
    use crate::wire::samples;

    fn flow(source: &str, destination: &str) -> Flow {
        Flow::new(source.parse().unwrap(), destination.parse().unwrap()).unwrap()
    }

    fn flows() -> [Flow; 2] {
        [
            flow("192.0.2.1:49152", "192.0.2.2:4791"),
            flow("[2001:db8::1]:4791", "[2001:db8::2]:4791"),
        ]
    }

    fn packet(flow: &Flow) -> Vec<u8> {
        let mut packet = vec![0; 64];
        let headers = samples::headers()[0];
        let length = headers.build(20, &mut packet).unwrap().length;
        packet.truncate(length);
        icrc::seal(flow, &mut packet);
        packet
    }

    /// IP and UDP headers and the packet, from a recording's first block of type 6.
    fn ip_frame(flow: Flow) -> Vec<u8> {
        let packet = packet(&flow);
        let mut recording = Recording::new(Vec::new(), "").unwrap();
        let before = recording.written().len();
        recording.record(&Record::new(Duration::ZERO, Direction::Sent, flow, &packet)).unwrap();
        let bytes = recording.into_inner();
        let length = flow.addresses.header_bytes() + UDP_BYTES + packet.len();
        bytes[before + 28..before + 28 + length].to_vec()
    }

    /// A pcap file of one frame.
    fn pcap_of(link_type: u32, frame: &[u8], is_big: bool) -> Vec<u8> {
        let length = frame.len() as u32;
        let numbers = [0xa1b2_c3d4, 0, 0, 0, 0x4_0000, link_type, 0, 0, length, length];
        let bytes = |number: u32| if is_big { number.to_be_bytes() } else { number.to_le_bytes() };
        [&numbers.map(bytes).concat(), frame].concat()
    }

    #[test]
    fn what_was_recorded_is_read() {
        let mut recording = Recording::new(Vec::new(), "roce").unwrap();
        let mut expected = Vec::new();
        for flow in flows() {
            let packet = packet(&flow);
            let record = Record::new(Duration::ZERO, Direction::Sent, flow, &packet);
            recording.record(&record).unwrap();
            let ip = IpHeader::new(flow.addresses, packet.len());
            expected.push(Captured { ip, flow, packet });
        }
        let read = packets(&recording.into_inner()).unwrap();
        assert_eq!(read, expected);
        assert!(read.iter().all(Captured::is_right));
    }

    #[test]
    fn a_wrong_id_address_or_byte_is_noticed() {
        for flow in flows() {
            let right = roce(Some(&ip_frame(flow))).unwrap();
            assert!(right.is_right());
            let mut damaged = right.clone();
            damaged.packet[12] ^= 1;
            assert!(!damaged.is_right());
            let mut damaged = right.clone();
            damaged.flow.source_port += 1;
            assert!(!damaged.is_right());
        }
        let mut other = roce(Some(&ip_frame(flows()[0]))).unwrap();
        other.ip.id = 1;
        assert!(!other.is_right());
    }

    #[test]
    fn frames_of_all_kinds_are_read() {
        let frame = ip_frame(flows()[0]);
        let packet = packet(&flows()[0]);
        let ethernet = [&[2; 12][..], &[0x08, 0x00], &frame, &[0; 7]].concat();
        let vlan = [&[2; 12][..], &[0x81, 0x00, 0, 5, 0x08, 0x00], &frame].concat();
        let any = [&[0; 14][..], &[0x08, 0x00], &frame].concat();
        let any_2 = [&[0x08, 0x00], &[0; 18][..], &frame].concat();
        let all = [(1, ethernet), (1, vlan), (101, frame.clone()), (113, any), (276, any_2)];
        for (link_type, frame) in all {
            for is_big in [false, true] {
                let read = packets(&pcap_of(link_type, &frame, is_big)).unwrap();
                assert_eq!(read.len(), 1, "{link_type}");
                assert_eq!(read[0].packet, packet);
                assert!(read[0].is_right());
            }
        }
        let arp = [&[2; 12][..], &[0x08, 0x06], &frame].concat();
        assert_eq!(packets(&pcap_of(1, &arp, false)), Ok(vec![]));
    }

    #[test]
    fn other_datagrams_are_passed_over() {
        let frame = ip_frame(flows()[0]);
        for (at, byte) in [(0, 0x46), (6, 0x20), (7, 1), (9, 6), (22, 0), (24, 0xff)] {
            let mut other = frame.clone();
            other[at] = byte;
            assert_eq!(roce(Some(&other)), None, "{at}");
        }
        for length in 0..frame.len() {
            assert_eq!(roce(Some(&frame[..length])), None);
        }
    }

    #[test]
    fn broken_recordings_are_refused() {
        let pcap = pcap_of(101, &ip_frame(flows()[0]), false);
        assert_eq!(packets(b"no recording"), Err(CaptureError::Format));
        assert_eq!(packets(&pcap[..pcap.len() - 1]), Err(CaptureError::Broken(32)));
        let mut cut = pcap.clone();
        cut[36] += 1;
        assert_eq!(packets(&cut), Err(CaptureError::Cut(32)));
        let mut other = pcap;
        other[20] = 99;
        assert_eq!(packets(&other), Err(CaptureError::LinkType(99)));
        let mut recording = Recording::new(Vec::new(), "roce").unwrap();
        let flow = flows()[0];
        recording.record(&Record::new(Duration::ZERO, Direction::Sent, flow, &[])).unwrap();
        let bytes = recording.into_inner();
        assert!(packets(&bytes).is_ok());
        for length in (1..bytes.len()).filter(|length| packets(&bytes[..*length]).is_ok()) {
            // Whole blocks.
            let last = u32::from_le_bytes(array(&bytes, length - 4)) as usize;
            assert_eq!(array::<4>(&bytes, length - last + 4), array::<4>(&bytes, length - 4));
        }
    }
}
