//! Each kind of record as the line of the file that it becomes.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use soft_hca_core::errno::Errno;
use soft_hca_core::trace::cause;
use soft_hca_core::trace::event::{
    self, Began, Changed, Channel, Completion, Ended, Event, Executed, Notice, Polled, Raised,
    ReceivePosted, SendPosted, Stalled, TracedSge, Wait, Woken,
};
use soft_hca_core::trace::{About, Record, Site};
use soft_hca_core::uapi::verbs::event as event_type;
use soft_hca_core::uapi::verbs::{opcode, qp_type, send_flag, status, wc_flag, wc_opcode};
use soft_hca_record::cause::sentence;
use soft_hca_record::entry::{Failure, Outcome};
use soft_hca_record::{Named, What};
use soft_hca_verbs::cause::{Cause, Lost, Malformed, MemoryRole, Peer, Side};
use soft_hca_verbs::{AccessFlags, ErrorNumber, QpState, Refusal, WcStatus};
use zerocopy::IntoBytes;

use super::Decoder;

/// Index of the program that all is about.
const US: u32 = 2;
/// Of its peer, which has done some of it.
const THEM: u32 = 3;

/// The decoded entry of an event that the process with an index has traced: the last one,
/// without what all have.
fn decoded(by: u32, event: impl Into<Event>, tail: &[u8]) -> Value {
    let mut decoder = Decoder::new(100);
    let about = |proc| About { thread: 0, proc, t: 105, site: Site::default() };
    for (proc, pid) in [(US, 20), (THEM, 30)] {
        let event = Began { pid }.into();
        decoder.entries(proc, &Record { about: about(proc), event, tail: b"a\0b\0".to_vec() });
    }
    let record = Record { about: about(US), event: event.into(), tail: tail.to_vec() };
    let entries = decoder.entries(by, &record);
    let mut last = serde_json::to_value(entries.last().unwrap()).unwrap();
    let members = last.as_object_mut().unwrap();
    assert_eq!((members.remove("t"), members.remove("process")), (Some(json!(5)), Some(json!(0))));
    last
}

fn list() -> [TracedSge; 2] {
    [(4096, 8), (8192, 2)].map(|(address, length)| TracedSge { address, length, lkey: 257 })
}

fn sges() -> Value {
    json!([
        {"address": 4096, "length": 8, "lkey": 257}, {"address": 8192, "length": 2, "lkey": 257},
    ])
}

#[test]
fn processes_begin_and_end() {
    let mut decoder = Decoder::new(0);
    let about = About { thread: 7, proc: US, t: 5, site: Site::default() };
    let began = Record { about, event: Began { pid: 20 }.into(), tail: b"sh\0-c\0".to_vec() };
    let ended = Record { about, event: Ended {}.into(), tail: Vec::new() };
    let entries = [began, ended].map(|record| decoder.entries(0, &record));
    let expected = json!([
        [{"t": 5, "process": 0, "what": "process_began", "pid": 20, "role": "program", "command": ["sh", "-c"]}],
        [
            {"t": 5, "process": 1, "what": "process_began", "pid": 0, "role": "program", "command": []},
            {"t": 5, "process": 0, "thread": 7, "by": 1, "what": "process_ended"},
        ],
    ]);
    assert_eq!(serde_json::to_value(entries).unwrap(), expected);
}

#[test]
fn sends_have_what_their_operation_names() {
    let plain = SendPosted { wr_id: 1, qpn: 17, qp_type: qp_type::RC, ..SendPosted::default() };
    let flags = send_flag::SIGNALED | send_flag::SOLICITED;
    let send = SendPosted { opcode: opcode::SEND_WITH_IMM, flags, imm: 5u32.to_be(), ..plain };
    let expected = json!({
        "what": "send_posted", "qp": 17, "wr_id": 1, "opcode": "IBV_WR_SEND_WITH_IMM",
        "flags": ["IBV_SEND_SIGNALED", "IBV_SEND_SOLICITED"], "length": 10, "sges": sges(), "imm": 5,
    });
    assert_eq!(decoded(US, send, list().as_bytes()), expected);
    let of = |event| {
        let mut entry = decoded(US, event, &[]);
        for known in ["what", "qp", "wr_id", "flags", "sges"] {
            entry.as_object_mut().unwrap().remove(known).unwrap();
        }
        entry
    };
    let remote = SendPosted { address: 4096, rkey: 258, length: 3, ..plain };
    let names = json!({"address": 4096, "rkey": 258});
    assert_eq!(
        of(SendPosted { opcode: opcode::RDMA_WRITE, ..remote }),
        json!({"opcode": "IBV_WR_RDMA_WRITE", "length": 3, "remote": names})
    );
    let atomic = SendPosted { compare_add: 6, swap: 7, length: 0, ..remote };
    assert_eq!(
        of(SendPosted { opcode: opcode::ATOMIC_CMP_AND_SWP, ..atomic }),
        json!({
            "opcode": "IBV_WR_ATOMIC_CMP_AND_SWP", "length": 0, "remote": names, "compare_add": 6, "swap": 7,
        })
    );
    assert_eq!(
        of(SendPosted { opcode: opcode::ATOMIC_WRITE, ..atomic }),
        json!({"opcode": "IBV_WR_ATOMIC_WRITE", "length": 8, "remote": names, "swap": 7})
    );
    assert_eq!(
        of(SendPosted { opcode: opcode::FLUSH, compare_add: 1, swap: 0, ..remote }),
        json!({
            "opcode": "IBV_WR_FLUSH", "length": 3, "remote": names,
            "flush": {"placement": ["IBV_FLUSH_GLOBAL"], "selectivity": "IBV_FLUSH_RANGE"},
        })
    );
    assert_eq!(
        of(SendPosted { opcode: opcode::LOCAL_INV, imm: 258, ..plain }),
        json!({"opcode": "IBV_WR_LOCAL_INV", "length": 0, "invalidate": 258})
    );
    let dgid = std::array::from_fn(|index| index as u8);
    let datagram = SendPosted {
        qp_type: qp_type::UD,
        opcode: opcode::SEND,
        dest_qpn: 18,
        qkey: 9,
        dgid,
        ..plain
    };
    let gid = "0001:0203:0405:0607:0809:0a0b:0c0d:0e0f";
    assert_eq!(
        of(datagram),
        json!({
            "opcode": "IBV_WR_SEND", "length": 0, "destination": {"qp": 18, "qkey": 9, "gid": gid},
        })
    );
}

#[test]
fn receives_and_completions_have_their_queues() {
    let receive = ReceivePosted { wr_id: 1, queue: 4, is_shared: 1, seen: 1 };
    let expected = json!({
        "what": "receive_posted", "queue": {"srq": 5}, "wr_id": 1, "length": 10, "sges": sges(),
        "seen": "at_message", "by": 1,
    });
    assert_eq!(decoded(THEM, receive, list().as_bytes()), expected);
    for (seen, expected) in [(0, "at_call"), (2, "at_post")] {
        let receive = ReceivePosted { is_shared: 0, seen, ..receive };
        let decoded = decoded(US, receive, &[]);
        assert_eq!((&decoded["queue"], &decoded["seen"]), (&json!({"qp": 4}), &json!(expected)));
    }
    let completion = Completion {
        wr_id: 1,
        cq: 3,
        qpn: 17,
        opcode: wc_opcode::RECV,
        length: 10,
        imm: 5u32.to_be(),
        wc_flags: wc_flag::WITH_IMM,
        is_solicited: 1,
        ..Completion::default()
    };
    let expected = json!({
        "what": "completion", "cq": 3, "qp": 17, "wr_id": 1, "opcode": "IBV_WC_RECV",
        "status": "IBV_WC_SUCCESS", "length": 10, "imm": 5, "solicited": true, "by": 1,
    });
    assert_eq!(decoded(THEM, completion, &[]), expected);
}

#[test]
fn polls_are_counted() {
    let polled = Polled { cq: 3, found: 2, ..Polled::default() };
    assert_eq!(decoded(US, polled, &[]), json!({"what": "polled", "cq": 3, "found": 2}));
    // The recording has begun at 100.
    let empty = Polled { empty: 7, first: 101, last: 104, found: 0, is_extended: 1, ..polled };
    let expected = json!({
        "what": "polled", "cq": 3, "found": 0, "extended": true,
        "empty": {"count": 7, "first": 1, "last": 4},
    });
    assert_eq!(decoded(US, empty, &[]), expected);
    let changed = Changed {
        wr_id: 1,
        address: 4096,
        length: 8,
        qpn: 17,
        is_unmapped: 1,
        ..Changed::default()
    };
    let expected = json!({
        "what": "polled", "cq": 3, "found": 2,
        "changed": [{"qp": 17, "wr_id": 1, "address": 4096, "length": 8, "unmapped": true}],
    });
    assert_eq!(decoded(US, polled, changed.as_bytes()), expected);
}

/// One of each check, and of each that has kinds one of each kind.
fn causes() -> Vec<Cause> {
    let memory = MemoryRole::Remote;
    let (needed, allowed) = (AccessFlags::REMOTE_WRITE, AccessFlags::empty());
    let state = QpState::INIT;
    let peers = [
        Peer::Gone,
        Peer::NotConnectedToUs { dest_qp: 7 },
        Peer::InState { state },
        Peer::OtherPsn { expected: 0xff_ffff, sent: 3 },
        Peer::Remote,
        Peer::Unreachable,
        Peer::NoPath,
        Peer::OtherPartition { own: 0x8001, its: 0xffff },
    ];
    let silent = peers.map(|peer| Cause::NoResponse { waited: 5, timeout: 14, retry_cnt: 7, peer });
    let malformed = [
        Malformed::Unknown,
        Malformed::Opcode,
        Malformed::MaxSendSge,
        Malformed::MaxRecvSge,
        Malformed::MaxRdAtomic,
        Malformed::MaxDestRdAtomic,
        Malformed::AddressHandle,
        Malformed::Window,
        Malformed::WindowBound,
        Malformed::WindowBase,
        Malformed::Placement,
    ];
    let lost = [
        Lost::NoQueuePair { qp: 1 },
        Lost::OtherType { qp: 2 },
        Lost::InState { qp: 3, state },
        Lost::QKey { qp: 4, sent: 5, its: 6 },
        Lost::OtherPartition { qp: 7, sent: 0x8001, its: 0xffff },
        Lost::NoReceive { qp: 8 },
        Lost::NoPath,
        Lost::OnPurpose,
    ];
    let memories = [MemoryRole::Local, MemoryRole::Receive, MemoryRole::Remote, MemoryRole::Bound];
    let others = [
        Cause::Bounds {
            memory,
            key: 258,
            address: 4096,
            length: 16,
            region_address: 4096,
            region_length: 8,
        },
        Cause::Access { memory, key: 2, needed, allowed },
        Cause::QpAccess { needed, allowed },
        Cause::ProtectionDomain { memory, key: 2 },
        Cause::Window { memory, key: 2 },
        Cause::Unmapped { memory },
        Cause::ReceiveTooSmall { length: 1 << 40, room: 2, grh: 40 },
        Cause::MessageTooLong { length: 1, limit: 2 },
        Cause::Alignment { address: 9 },
        Cause::ReceiverNotReady { waited: 1 << 40, min_rnr_timer: 12, rnr_retry: 6 },
        Cause::CqFull { side: Side::Requester, cq: 3 },
        Cause::CqFull { side: Side::Responder, cq: 3 },
        Cause::Flushed,
        Cause::Refused { status: WcStatus::REM_ACCESS_ERR },
        Cause::Held { duration: 1 << 40 },
    ];
    let keys = memories.map(|memory| Cause::Key { memory, key: u32::MAX });
    let all = keys.into_iter().chain(others).chain(silent);
    let all = all.chain(malformed.map(|why| Cause::Malformed { why }));
    all.chain(lost.map(|why| Cause::NotTaken { why })).collect()
}

/// A cause is the same in the engine, the trace and the file, and each reads otherwise.
#[test]
fn causes_reach_the_record_as_they_are() {
    let stalled = Stalled { wr_id: 1, qpn: 17 };
    let mut told = BTreeSet::new();
    for reason in causes() {
        let line = decoded(US, stalled, &cause::encode(Some(&reason))).to_string();
        let expected = What::Stalled { qp: 17, wr_id: 1, reason };
        assert_eq!(serde_json::from_str::<What>(&line).unwrap(), expected, "{line}");
        told.insert((reason.side().map(|side| format!("{side:?}")), sentence(&reason), line));
    }
    assert_eq!(told.len(), causes().len());
    let sentences: BTreeSet<&String> = told.iter().map(|(_, sentence, _)| sentence).collect();
    // Those of the four kinds of memory, and of the two sides' queues, differ by where they are told.
    assert_eq!(sentences.len(), causes().len() - 4);
}

/// So is the check that refuses a call.
#[test]
fn refusals_reach_the_record_as_they_are() {
    for refusal in Refusal::all() {
        let why = Errno::EBUSY.because(refusal).beyond(3, 2).explanation();
        let call = event::Call { errno: Errno::EBUSY.number(), ..event::Call::default() };
        let line = decoded(US, call, &why).to_string();
        let What::Call(call) = serde_json::from_str(&line).unwrap() else { panic!("{line}") };
        let values = ["requested", "limit"].into_iter().zip([3, 2]);
        let expected = Outcome::Refused {
            error: Failure::Error(ErrorNumber::EBUSY),
            reason: Some(refusal),
            values: values.map(|(name, value)| Named(name.into(), value.into())).collect(),
        };
        assert_eq!(call.result, expected, "{line}");
    }
}

/// No check is left out above: for a name that is none serde lists those that there are.
#[test]
fn all_causes_are_tried() {
    let lines: String = causes().iter().map(|cause| json!(cause).to_string()).collect();
    let unknown = [
        serde_json::from_value::<Cause>(json!({"check": "?"})).unwrap_err(),
        serde_json::from_value::<Peer>(json!({"is": "?"})).unwrap_err(),
        serde_json::from_value::<Lost>(json!({"is": "?"})).unwrap_err(),
        serde_json::from_value::<Malformed>(json!("?")).unwrap_err(),
        serde_json::from_value::<MemoryRole>(json!("?")).unwrap_err(),
    ];
    for error in unknown {
        let error = error.to_string();
        let names: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
        assert!(names.len() >= 4, "{error}");
        for name in names {
            assert!(lines.contains(&format!("\"{name}\"")), "{name}");
        }
    }
}

#[test]
fn requests_wait_and_fail_for_a_reason() {
    let not_ready = Cause::ReceiverNotReady { waited: 0, min_rnr_timer: 12, rnr_retry: 6 };
    let expected = json!({
        "what": "stalled", "qp": 17, "wr_id": 1,
        "reason": {"check": "receiver_not_ready", "waited": 0, "min_rnr_timer": 12, "rnr_retry": 6},
    });
    let stalled = Stalled { wr_id: 1, qpn: 17 };
    assert_eq!(decoded(US, stalled, &cause::encode(Some(&not_ready))), expected);
    let needed = AccessFlags::REMOTE_WRITE;
    let access = Cause::Access {
        memory: MemoryRole::Remote,
        key: 258,
        needed,
        allowed: needed | AccessFlags::REMOTE_READ,
    };
    let failed = Executed {
        wr_id: 1,
        qpn: 17,
        opcode: opcode::RDMA_WRITE,
        status: status::REM_ACCESS_ERR,
        ..Executed::default()
    };
    let expected = json!({
        "what": "executed", "qp": 17, "wr_id": 1, "opcode": "IBV_WR_RDMA_WRITE", "length": 0,
        "status": "IBV_WC_REM_ACCESS_ERR",
        "reason": {
            "check": "access", "memory": "remote", "key": 258, "needed": "IBV_ACCESS_REMOTE_WRITE",
            "allowed": "IBV_ACCESS_REMOTE_WRITE|IBV_ACCESS_REMOTE_READ",
        },
    });
    assert_eq!(decoded(US, failed, &cause::encode(Some(&access))), expected);
    let met = Executed {
        wr_id: 1,
        qpn: 17,
        opcode: opcode::SEND,
        length: 10,
        receive_qpn: 18,
        receive_proc: THEM,
        receive_wr_id: 2,
        ..Executed::default()
    };
    let receive = json!({"process": 1, "qp": 18, "wr_id": 2});
    assert_eq!(decoded(US, met, &[])["receive"], receive);
}

#[test]
fn threads_wait_and_events_are_raised() {
    let channel = Channel::Connection as u32;
    let expected = json!({"what": "wait", "on": "connection", "fd": 5});
    assert_eq!(decoded(US, Wait { channel, fd: 5 }, &[]), expected);
    let expected =
        json!({"what": "woken", "on": "connection", "fd": 5, "waited": 9, "event": true});
    assert_eq!(decoded(US, Woken { waited: 9, channel, fd: 5, is_event: 1 }, &[]), expected);
    let expected = json!({"what": "async_event", "event": "IBV_EVENT_SRQ_LIMIT_REACHED", "element": {"srq": 5}});
    assert_eq!(decoded(US, Raised { kind: 1, index: 4 }, &[]), expected);
    let place = "port 1 of rxe0";
    let expected = json!({"what": "async_event", "event": "IBV_EVENT_PORT_ERR", "place": place});
    let notice = Notice { event_type: event_type::PORT_ERR, qpn: 0 };
    assert_eq!(decoded(US, notice, place.as_bytes()), expected);
    let place = "port 2 of rxe0 to LID 5";
    let expected = json!({
        "what": "async_event", "event": "IBV_EVENT_PATH_MIG", "element": {"qp": 17}, "place": place,
    });
    let notice = Notice { event_type: event_type::PATH_MIG, qpn: 17 };
    assert_eq!(decoded(US, notice, place.as_bytes()), expected);
}
