#[path = "../../../roce/src/wire/pcapng/tests/tshark.rs"]
mod tshark;

use soft_hca_roce::wire::capture::{self, Captured};
use soft_hca_roce::wire::ip::Addresses;
use soft_hca_roce::wire::mad::Mad;
use soft_hca_roce::wire::packet::Packet;

use super::*;
use crate::file::samples::{EVERY, SAMPLE, read};
use soft_hca_roce::wire::cm::Message;
use tshark::{has_tshark, tshark};

fn recording(record: &str) -> Vec<u8> {
    let (header, entries) = read(record);
    let mut recording = Vec::new();
    write(&header, &entries, &mut recording).unwrap();
    recording
}

/// A packet in a line.
fn line(captured: &Captured) -> String {
    let (from, to) = match captured.flow.addresses {
        Addresses::V4 { source, destination } => (source.to_string(), destination.to_string()),
        Addresses::V6 { source, destination } => (source.to_string(), destination.to_string()),
    };
    let Packet { headers, payload } = Packet::parse(&captured.packet).unwrap();
    let Headers { operation, dest_qpn, psn, ack_req, solicited, .. } = headers;
    let what = if dest_qpn == GSI_QPN {
        let message = Message::decode(&Mad::decode(payload).unwrap()).unwrap();
        let message = format!("{message:?}");
        message.split('(').next().unwrap().into()
    } else {
        assert!(payload.iter().all(|byte| *byte == 0));
        format!("{:?} {operation:?}", headers.service)
    };
    let flags = [(ack_req, " ack"), (solicited, " solicited")];
    let flags = flags.into_iter().filter(|flag| flag.0).map(|flag| flag.1).collect::<String>();
    let length = payload.len();
    format!("{from} > {to} qp {dest_qpn} psn {:x} {what} {length}{flags}", psn.get())
}

#[test]
fn work_requests_become_packets() {
    let packets = capture::packets(&recording(EVERY)).unwrap();
    assert!(packets.iter().all(Captured::is_right));
    let lines = packets.iter().map(line).collect::<Vec<_>>().join("\n");
    let expected = include_str!("every.txt").trim_end();
    assert!(lines == expected, "{lines}");
}

#[test]
fn what_has_a_short_answer_is_answered_as_a_read_of_nothing() {
    let flush = "\"opcode\":\"IBV_WR_FLUSH\",\"flush\":{\"placement\":[\"IBV_FLUSH_GLOBAL\"],\
                 \"selectivity\":\"IBV_FLUSH_MR\"}";
    let record = EVERY
        .replace("IBV_WR_ATOMIC_CMP_AND_SWP", "IBV_WR_ATOMIC_WRITE")
        .replace("\"opcode\":\"IBV_WR_ATOMIC_FETCH_AND_ADD\"", flush);
    let packets = capture::packets(&recording(&record)).unwrap();
    let lines: Vec<_> = packets.iter().map(line).collect();
    for request in ["AtomicWrite(", "Flush(Feth { placement: 1, selectivity: 1 }, "] {
        let at = lines.iter().position(|line| line.contains(request)).unwrap();
        assert!(lines[at + 1].contains("ReadResponseOnly("), "{}", lines[at + 1]);
    }
}

/// The parts of a message of the connection manager that sides have to agree upon.
#[test]
fn connections_are_made_of_their_queue_pairs() {
    let packets = capture::packets(&recording(EVERY)).unwrap();
    let messages = packets.iter().filter_map(|captured| {
        let packet = Packet::parse(&captured.packet).unwrap();
        Message::decode(&Mad::decode(packet.payload)?).ok()
    });
    let messages = messages.collect::<Vec<_>>();
    let [Message::Req(req), Message::Rep(rep), Message::Rtu(rtu), Message::Dreq(dreq), ..] =
        &messages[..]
    else {
        panic!("{messages:?}");
    };
    assert_eq!((req.local_qpn, req.starting_psn, req.mtu), (17, Psn::new(0x200), 3));
    assert_eq!((rep.local_qpn, rep.starting_psn, rep.srq), (18, Psn::new(0xff_fffe), true));
    assert_eq!(rep.remote_comm_id, req.local_comm_id);
    assert_eq!((rtu.local_comm_id, rtu.remote_comm_id), (req.local_comm_id, rep.local_comm_id));
    assert_eq!((dreq.local_comm_id, dreq.remote_qpn), (req.local_comm_id, 18));
    assert_eq!(soft_hca_roce::wire::cm::port(req.service_id), Some((0x106, 7471)));
    let reply = messages.iter().find_map(|message| match message {
        Message::SidrRep(reply) => Some((reply.qpn, reply.qkey)),
        _ => None,
    });
    assert_eq!(reply, Some((34, 0x123_4567)));
}

#[test]
fn wireshark_finds_nothing_wrong() {
    if !has_tshark() {
        return;
    }
    for (name, record) in [("record-sample", SAMPLE), ("record-every", EVERY)] {
        let recording = recording(record);
        let packets = capture::packets(&recording).unwrap();
        let fields = [
            "_ws.malformed",
            "_ws.expert.severity",
            "udp.checksum.status",
            "infiniband.bth.opcode",
            "frame.comment",
        ];
        let rows = tshark(name, &recording, &fields);
        assert_eq!(rows.len(), packets.len());
        for (row, captured) in rows.iter().zip(packets) {
            let [malformed, severity, checksum, opcode, comment] = &row[..] else {
                panic!("{row:?}");
            };
            // Of a comment Wireshark says that it is there.
            assert_eq!((&malformed[..], &severity[..]), ("", COMMENT), "{row:?}");
            assert_eq!((&checksum[..], &opcode[..]), ("1", &captured.packet[0].to_string()[..]));
            assert!(comment.contains("process ") || comment.contains("nobody"), "{row:?}");
        }
    }
}

/// `PI_COMMENT`.
const COMMENT: &str = "1048576";

#[test]
fn packets_name_their_work_requests() {
    if !has_tshark() {
        return;
    }
    let fields = ["frame.time_epoch", "infiniband.bth.opcode", "frame.comment"];
    let rows = tshark("record-comments", &recording(SAMPLE), &fields);
    let rows = rows.iter().map(|row| row.iter().map(|field| &field[..]).collect::<Vec<_>>());
    let expected = [
        ["1795396800.001300000", "100", "process 1 (ping-sr-1), cm_id 0: REQ of rdma_connect"],
        ["1795396800.002003000", "4", "process 1 (ping-sr-1), qp 4097, wr_id 1, IBV_WR_SEND"],
        [
            "1795396800.002003000",
            "17",
            "answers process 1 (ping-sr-1), qp 4097, wr_id 1, IBV_WR_SEND",
        ],
        [
            "1795396800.003000000",
            "10",
            "process 1 (ping-sr-1), qp 4097, wr_id 2, IBV_WR_RDMA_WRITE",
        ],
        [
            "1795396800.003000000",
            "17",
            "refuses process 1 (ping-sr-1), qp 4097, wr_id 2, IBV_WR_RDMA_WRITE: \
             IBV_WC_REM_ACCESS_ERR",
        ],
    ];
    assert_eq!(rows.collect::<Vec<_>>(), expected);
}

/// What is not there does no harm.
#[test]
fn parts_of_a_record_make_packets() {
    let (header, entries) = read(EVERY);
    for first in 0..entries.len() {
        let mut part = Vec::new();
        write(&header, &entries[first..], &mut part).unwrap();
        let packets = capture::packets(&part).unwrap();
        assert!(packets.iter().all(Captured::is_right));
        let mut part = Vec::new();
        write(&header, &entries[..first], &mut part).unwrap();
        assert!(capture::packets(&part).unwrap().iter().all(Captured::is_right));
    }
}
