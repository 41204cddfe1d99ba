//! RoCE packets in recordings of whole frames: those of tcpdump, QEMU, Wireshark and `--pcap`. Other
//! than a socket, a recording shows IPv4's identification, so that the ICRC is checked in full.

use std::error::Error;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use soft_hca_roce::wire::icrc::{self, Right};
use soft_hca_roce::wire::ip::{Addresses, Flow};
use soft_hca_roce::wire::packet::PORT;

/// A RoCE packet of a recording.
#[derive(Debug)]
pub struct Captured {
    flow: Flow,
    right: Right,
    packet: Vec<u8>,
}

impl Captured {
    /// Whether the packet's ICRC fits its headers.
    pub fn is_right(&self) -> bool {
        icrc::check(&self.flow, &self.packet) == Some(self.right)
    }
}

/// All RoCE packets of a recording, pcap or pcapng, in its order. Other frames are passed over. Fails if
/// it is neither, broken, of a network that is not known here, or has frames that are not recorded in full.
pub fn packets(recording: &[u8]) -> Result<Vec<Captured>, Box<dyn Error>> {
    let mut packets = Vec::new();
    if recording.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) {
        let mut reader = PcapNgReader::new(recording)?;
        while let Some(block) = reader.next_block() {
            let Block::EnhancedPacket(block) = block?.into_owned() else { continue };
            let interface = reader.interfaces().get(block.interface_id as usize);
            let network = interface.ok_or("a frame of no interface")?.linktype;
            packets.extend(roce(network, &block.data, block.original_len)?);
        }
    } else {
        let mut reader = PcapReader::new(recording)?;
        let network = reader.header().datalink;
        while let Some(frame) = reader.next_packet() {
            let frame = frame?;
            packets.extend(roce(network, &frame.data, frame.orig_len)?);
        }
    }
    Ok(packets)
}

/// A frame's RoCE packet, if there is one: UDP to the right port, no fragment.
fn roce(network: DataLink, frame: &[u8], length: u32) -> Result<Option<Captured>, Box<dyn Error>> {
    if frame.len() < length as usize {
        return Err("a frame was not recorded in full".into());
    }
    let sliced = match u32::from(network) {
        1 => SlicedPacket::from_ethernet(frame),
        101 => SlicedPacket::from_ip(frame),
        // tcpdump's "any" interface, two versions.
        113 => SlicedPacket::from_linux_sll(frame),
        276 => SlicedPacket::from_ip(frame.get(20..).unwrap_or_default()),
        other => return Err(format!("unknown link type {other}").into()),
    };
    let Ok(SlicedPacket { net: Some(net), transport: Some(TransportSlice::Udp(udp)), .. }) = sliced
    else {
        return Ok(None);
    };
    let (addresses, right) = match net {
        NetSlice::Ipv4(ip) => {
            let ip = ip.header();
            let (source, destination) = (ip.source_addr(), ip.destination_addr());
            let right = Right::V4 { id: ip.identification(), dont_fragment: ip.dont_fragment() };
            (Addresses::V4 { source, destination }, right)
        }
        NetSlice::Ipv6(ip) => {
            let ip = ip.header();
            let (source, destination) = (ip.source_addr(), ip.destination_addr());
            (Addresses::V6 { source, destination }, Right::V6)
        }
        _ => return Ok(None),
    };
    let (source_port, destination_port) = (udp.source_port(), udp.destination_port());
    let flow = Flow { addresses, source_port, destination_port };
    let packet = udp.payload().to_vec();
    Ok((destination_port == PORT).then_some(Captured { flow, right, packet }))
}
