mod tshark;

use pcap_file::pcapng::{Block, PcapNgReader};
use proptest::prelude::*;

use super::*;
use crate::wire::bth::{Psn, Qpn};
use crate::wire::cm::{self, CmaHeader, Message};
use crate::wire::headers::Deth;
use crate::wire::icrc;
use crate::wire::ip::gid;
use crate::wire::mad::{GSI_QKEY, GSI_QPN};
use crate::wire::opcode::{Operation, Service};
use crate::wire::packet::{Headers, MAX_BYTES, Packet};
use crate::wire::samples;
use tshark::{has_tshark, tshark};

fn flows() -> [Flow; 2] {
    let flow = |source: &str, destination: &str| {
        Flow::new(source.parse().unwrap(), destination.parse().unwrap()).unwrap()
    };
    [flow("192.0.2.1:49152", "192.0.2.2:4791"), flow("[2001:db8::1]:4791", "[2001:db8::2]:4791")]
}

fn built(flow: &Flow, headers: Headers, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; MAX_BYTES];
    let length = Packet { headers, payload }.build(&mut packet).unwrap();
    packet.truncate(length);
    icrc::seal(flow, &mut packet);
    packet
}

/// A packet of each kind: a mixed lot of payloads and all messages of the connection manager.
fn packets(flow: &Flow) -> Vec<Vec<u8>> {
    let lengths = (0..70).chain([256, 1024, 4096]);
    let payloads = lengths.map(|length| vec![0x5a; length]).collect::<Vec<_>>();
    let mut packets = Vec::new();
    for (i, headers) in samples::headers().into_iter().enumerate() {
        let payload = match headers.operation {
            // Eight bytes; and 16 reserved ones.
            Operation::AtomicWrite(_) => &payloads[8],
            Operation::CongestionNotification => &vec![0; 16],
            operation if operation.has_payload() => &payloads[i * 7 % payloads.len()],
            _ => &payloads[0],
        };
        packets.push(built(flow, headers, payload));
    }
    for message in messages(flow) {
        let deth = Deth { qkey: GSI_QKEY, source_qpn: GSI_QPN };
        let operation = Operation::Datagram(deth, None);
        let headers = Headers::new(Service::Ud, operation, GSI_QPN, Psn::new(1));
        packets.push(built(flow, headers, &message.encode(0x1122).encode()));
    }
    packets
}

fn messages(flow: &Flow) -> Vec<Message> {
    let addresses = flow.addresses;
    let header = CmaHeader { source_port: 40000, addresses };
    let service_id = cm::service_id(0x0106, 7471);
    let mut req = cm::Req {
        service_id,
        local_ca_guid: 0x0102_0304_0506_0708,
        local_qpn: Qpn::new(0x12),
        responder_resources: 3,
        initiator_depth: 4,
        remote_response_timeout: 20,
        transport: cm::transport::UC,
        flow_control: true,
        starting_psn: Psn::new(0x5678),
        local_response_timeout: 19,
        retry_count: 6,
        pkey: 0xffff,
        mtu: 3,
        rnr_retry_count: 5,
        max_cm_retries: 15,
        srq: true,
        ..cm::Req::default()
    };
    req.primary = cm::Path {
        remote_gid: gid(addresses.destination()),
        flow_label: 0xabcde,
        traffic_class: 0x20,
        hop_limit: 64,
        ack_timeout: 18,
        ..cm::Path::default()
    };
    req.private_data = cm::PrivateData::behind(&header, &[]).unwrap();
    let mut sidr_req = cm::SidrReq { service_id, ..cm::SidrReq::default() };
    sidr_req.private_data = cm::PrivateData::behind(&header, &[]).unwrap();
    let rej = cm::Rej {
        rejected: cm::Answered::Rep,
        reason: cm::reason::INVALID_SERVICE_ID,
        ..cm::Rej::default()
    };
    let rep = cm::Rep {
        local_qpn: Qpn::new(0x13),
        starting_psn: Psn::new(0x9abc),
        responder_resources: 1,
        initiator_depth: 2,
        target_ack_delay: 15,
        rnr_retry_count: 7,
        ..cm::Rep::default()
    };
    vec![
        req.into(),
        cm::Mra { service_timeout: 24, ..cm::Mra::default() }.into(),
        rej.into(),
        rep.into(),
        cm::Rtu::default().into(),
        cm::Dreq { remote_qpn: Qpn::new(0x13), ..cm::Dreq::default() }.into(),
        cm::Drep::default().into(),
        sidr_req.into(),
        cm::SidrRep { qpn: Qpn::new(0x14), service_id, ..cm::SidrRep::default() }.into(),
    ]
}

/// A checksum's status.
const GOOD: &str = "1";

fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

#[test]
fn wireshark_finds_nothing_wrong() {
    if !has_tshark() {
        return;
    }
    for (name, flow) in ["v4", "v6"].into_iter().zip(flows()) {
        let packets = packets(&flow);
        let mut recording = Recording::new(Vec::new(), "roce").unwrap();
        for packet in &packets {
            let record = Record::new(Duration::from_secs(1), Direction::Sent, flow, packet);
            recording.record(&record).unwrap();
        }
        let fields = [
            "_ws.malformed",
            "_ws.expert.message",
            "udp.checksum.status",
            "infiniband.bth.opcode",
            "infiniband.bth.destqp",
            "infiniband.bth.psn",
            "infiniband.bth.padcnt",
            "infiniband.invariant.crc",
            "infiniband.mad.attributeid",
        ];
        let rows = tshark(name, &recording.into_inner(), &fields);
        assert_eq!(rows.len(), packets.len());
        for (row, packet) in rows.iter().zip(&packets) {
            let Packet { headers, payload } = Packet::parse(packet).unwrap();
            let [malformed, expert, checksum, opcode, qpn, psn, pad, icrc, attribute] = &row[..]
            else {
                panic!("{row:?}");
            };
            assert_eq!((&malformed[..], &expert[..]), ("", ""), "{row:?}");
            assert_eq!(checksum, GOOD, "{row:?}");
            assert_eq!(number(opcode), u64::from(packet[0]), "{row:?}");
            assert_eq!(number(qpn), u64::from(headers.dest_qpn.get()), "{row:?}");
            assert_eq!(number(psn), u64::from(headers.psn.get()), "{row:?}");
            assert_eq!(number(pad) as usize, payload.len().wrapping_neg() % 4, "{row:?}");
            let (_, last) = packet.split_last_chunk().unwrap();
            // Wireshark 4 knows neither FLUSH nor ATOMIC WRITE, and looks for no end of a CNP.
            if !icrc.is_empty() || !matches!(packet[0], 0x1c | 0x1d | 0x81) {
                assert_eq!(number(icrc), u64::from(u32::from_be_bytes(*last)), "{row:?}");
            }
            if headers.dest_qpn == GSI_QPN {
                let expected = u16::from_be_bytes([payload[16], payload[17]]);
                assert_eq!(number(attribute), u64::from(expected), "{row:?}");
            }
        }
    }
}

#[test]
fn wireshark_reads_messages_alike() {
    if !has_tshark() {
        return;
    }
    let [flow, _] = flows();
    let messages = messages(&flow);
    let deth = Deth { qkey: GSI_QKEY, source_qpn: GSI_QPN };
    let operation = Operation::Datagram(deth, None);
    let headers = Headers::new(Service::Ud, operation, GSI_QPN, Psn::new(1));
    let mut recording = Recording::new(Vec::new(), "roce").unwrap();
    for message in &messages {
        let packet = built(&flow, headers, &message.encode(0x1122).encode());
        let record = Record::new(Duration::from_secs(1), Direction::Sent, flow, &packet);
        recording.record(&record).unwrap();
    }
    // Fields of the message with this number. Of the flow label Wireshark 4 shows 12 bits.
    let expected: [(usize, &str, u64); 29] = [
        (0, "req.localqpn", 0x12),
        (0, "req.serviceid.dport", 7471),
        (0, "req.localcaguid", 0x0102_0304_0506_0708),
        (0, "req.responderres", 3),
        (0, "req.initdepth", 4),
        (0, "req.remoteresptout", 20),
        (0, "req.transpsvctype", 1),
        (0, "req.e2eflowctrl", 1),
        (0, "req.startpsn", 0x5678),
        (0, "req.localresptout", 19),
        (0, "req.retrcount", 6),
        (0, "req.pkey", 0xffff),
        (0, "req.pppmtu", 3),
        (0, "req.rnrretrcount", 5),
        (0, "req.maxcmretr", 15),
        (0, "req.srq", 1),
        (0, "req.prim_hoplim", 64),
        (0, "req.prim_localacktout", 18),
        (0, "req.prim_tfcclass", 0x20),
        (0, "req.ip_cm.sport", 40000),
        (2, "rej.msgrej", 1),
        (2, "rej.reason", 8),
        (3, "rep.localqpn", 0x13),
        (3, "rep.startpsn", 0x9abc),
        (3, "rep.respres", 1),
        (3, "rep.initdepth", 2),
        (3, "rep.tgtackdelay", 15),
        (3, "rep.rnrretrcount", 7),
        (5, "req.remoteqpneecn", 0x13),
    ];
    let fields = expected.map(|(_, field, _)| format!("infiniband.cm.{field}"));
    let rows = tshark("cm", &recording.into_inner(), &fields.each_ref().map(|field| &field[..]));
    for (i, (message, field, value)) in expected.into_iter().enumerate() {
        assert_eq!(number(&rows[message][i]), value, "{field}");
    }
    let addresses = ["infiniband.cm.req.ip_cm.sip4", "infiniband.cm.req.ip_cm.dip4"];
    let mut recording = Recording::new(Vec::new(), "roce").unwrap();
    let packet = built(&flow, headers, &messages[0].encode(1).encode());
    recording.record(&Record::new(Duration::ZERO, Direction::Sent, flow, &packet)).unwrap();
    let rows = tshark("addresses", &recording.into_inner(), &addresses);
    assert_eq!(rows, [["192.0.2.1", "192.0.2.2"]]);
}

#[test]
fn a_recording_says_when_which_way_and_what_else() {
    if !has_tshark() {
        return;
    }
    let flow = flows()[0];
    let operation = Operation::SendMiddle;
    let packet =
        built(&flow, Headers::new(Service::Rc, operation, Qpn::new(2), Psn::new(1)), b"abc");
    let mut recording = Recording::new(Vec::new(), "192.0.2.1").unwrap();
    let sent = Record {
        comment: "dropped on purpose",
        traffic_class: 0x68,
        ..Record::new(Duration::new(1_700_000_000, 123_456_789), Direction::Sent, flow, &packet)
    };
    recording.record(&sent).unwrap();
    let right = Right::V4 { id: 0x1234, dont_fragment: false };
    let long = "é".repeat(40_000);
    let received = Record {
        comment: &long,
        hop_limit: 63,
        ..Record::new(Duration::new(1_700_000_001, 0), Direction::Received, flow, &packet)
    };
    recording.record(&received.with_id(right)).unwrap();
    let fields = [
        "frame.time_epoch",
        "frame.interface_name",
        "frame.packet_flags_direction",
        "ip.id",
        "ip.flags.df",
        "ip.ttl",
        "ip.dsfield",
        "frame.comment",
    ];
    let mut rows = tshark("records", &recording.into_inner(), &fields);
    // From 4.2 on it has words for flags.
    for flag in rows.iter_mut().map(|row| &mut row[4]) {
        *flag = flag.replace("True", "1").replace("False", "0");
    }
    let first = [
        "1700000000.123456789",
        "192.0.2.1",
        "0x00000002",
        "0x0000",
        "1",
        "64",
        "0x68",
        "dropped on purpose",
    ];
    assert_eq!(rows[0].iter().map(|field| &field[..]).collect::<Vec<_>>(), first);
    let second = ["1700000001.000000000", "192.0.2.1", "0x00000001", "0x1234", "0", "63", "0x00"];
    assert_eq!(rows[1][..7].iter().map(|field| &field[..]).collect::<Vec<_>>(), second);
    assert!(rows[1][7].starts_with("éé"));
    assert_eq!(rows.len(), 2);
}

/// Without Wireshark: blocks' lengths lead from each to the next, to the end.
#[test]
fn blocks_follow_each_other() {
    let flow = flows()[1];
    let mut recording = Recording::new(Vec::new(), "é").unwrap();
    let packet = [1; 19];
    for length in 0..packet.len() {
        let comment = &"comment"[..length % 5];
        let record = Record {
            comment,
            ..Record::new(Duration::ZERO, Direction::Sent, flow, &packet[..length])
        };
        recording.record(&record).unwrap();
    }
    let bytes = recording.into_inner();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut kinds = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = number(at + 4) as usize;
        assert_eq!((length % 4, number(at + length - 4) as usize), (0, length));
        kinds.push(number(at));
        at += length;
    }
    let mut expected = vec![block::SECTION_HEADER, block::INTERFACE];
    expected.extend([block::ENHANCED_PACKET; 19]);
    assert_eq!(kinds, expected);
}

proptest! {
    #[test]
    fn what_is_recorded_is_read_by_another_library(
        records in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..200), ".*"), 0..5),
    ) {
        let mut recording = Recording::new(Vec::new(), "roce").unwrap();
        let mut expected = Vec::new();
        for flow in flows() {
            for (packet, comment) in &records {
                let time = Duration::from_nanos(1_700_000_000_123_456_789);
                let record = Record { comment, ..Record::new(time, Direction::Sent, flow, packet) };
                recording.record(&record).unwrap();
                let headers = flow.addresses.header_bytes() + UDP_BYTES;
                expected.push((headers + packet.len(), packet.clone()));
            }
        }
        let bytes = recording.into_inner();
        let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
        let mut read = Vec::new();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(block) = block.unwrap() {
                let expected_packet = expected.get(read.len()).map_or(0, |(_, packet)| packet.len());
                let packet = block.data[block.data.len() - expected_packet..].to_vec();
                read.push((block.original_len as usize, packet));
            }
        }
        prop_assert_eq!(read, expected);
    }
}
