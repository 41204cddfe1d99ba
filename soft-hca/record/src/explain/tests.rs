use serde_json::{Value, json};

use super::*;
use crate::testing::Run;

const SECOND: u64 = 1_000_000_000;

/// A run in which a sender waits.
fn stalled() -> Run {
    let mut run = Run::new();
    run.put(0, 0, "process_began", json!({ "pid": 7, "role": "program", "command": ["ping"] }));
    let args =
        json!([["qp", {"qp": 17}], ["qp_state", "IBV_QPS_RTR"], ["dest_qp_num", {"qp": 18}]]);
    run.call(0, "ibv_modify_qp", args, json!([]));
    let reason = json!({
        "check": "receiver_not_ready", "waited": 0, "min_rnr_timer": 0, "rnr_retry": 7,
    });
    run.put(0, 0, "stalled", json!({ "qp": 17, "wr_id": 5, "reason": reason }));
    run
}

fn heard(live: &mut Live, run: &Run) -> Vec<String> {
    run.entries().iter().flat_map(|entry| live.entry(entry)).collect()
}

#[test]
fn who_waits_for_long_is_told_once() {
    let run = stalled();
    let mut live = Live::new();
    assert!(heard(&mut live, &run).is_empty());
    let since = run.entries().last().unwrap().t;
    assert!(live.waiting(since + SECOND - 1).is_empty());
    let lines = live.waiting(since + SECOND);
    let expected = "ping[7]: the send work request wr_id=0x5 of qp 17, connected to qp 18, waits for 1.00 s: on \
        the peer's side: the receiver has no receive posted (rnr_retry 7, for ever; the receiver's \
        min_rnr_timer 0, which is the longest: 655.36 ms); usual cause: ";
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with(expected), "{}", lines[0]);
    assert!(live.waiting(since + 2 * SECOND).is_empty() && live.end().is_empty());
}

#[test]
fn who_goes_on_or_ends_does_not_wait() {
    let executed = json!({
        "qp": 17, "wr_id": 5, "opcode": "IBV_WR_SEND", "length": 8, "status": "IBV_WC_SUCCESS",
    });
    for (what, members) in [("executed", executed), ("process_ended", json!({}))] {
        let mut run = stalled();
        run.put(1, 0, what, members);
        let mut live = Live::new();
        assert!(heard(&mut live, &run).is_empty());
        assert!(live.waiting(10 * SECOND).is_empty(), "{what}");
    }
}

#[test]
fn who_waits_to_the_end_is_told() {
    let what =
        "0.000030 s, ping[7]: the send work request wr_id=0x5 of qp 17, connected to qp 18, still ";
    let ends: [(u64, &str, Value, &str); 3] = [
        (2 * SECOND, "process_ended", json!({}), "waited, for 2.00 s, when its process ended\n"),
        (
            SECOND / 2,
            "call",
            call("ibv_destroy_qp", json!([["qp", {"qp": 17}]])),
            "waited, for 500.0 ms, when its program destroyed the queue pair\n",
        ),
        (0, "wait", json!({ "on": "completion", "fd": 3 }), "waits when the record ends\n"),
    ];
    for (later, entry, members, how) in ends {
        let mut run = stalled();
        run.put(later, 0, entry, members);
        let text = text(run.entries());
        assert!(text.starts_with(&format!("{what}{how}    why: on the peer's side: ")), "{text}");
        assert_eq!(text.matches(" usual cause: ").count(), 1, "{text}");
        let mut live = Live::new();
        let is_long = later >= SECOND;
        assert_eq!(heard(&mut live, &run).len(), usize::from(is_long), "{how}");
    }
    // A request that was reported is not reported again.
    let mut run = stalled();
    let mut live = Live::new();
    assert!(heard(&mut live, &run).is_empty());
    assert_eq!(live.waiting(10 * SECOND).len(), 1);
    run.put(10 * SECOND, 0, "process_ended", json!({}));
    assert!(live.entry(run.entries().last().unwrap()).is_empty());
}

/// Members of a call that is done.
fn call(name: &str, args: Value) -> Value {
    json!({ "name": name, "args": args, "duration": 1, "result": { "done": [] } })
}

fn completion(qp: u32, wr_id: u64, status: &str, reason: &Value) -> Value {
    let mut members = json!({
        "cq": qp, "qp": qp, "wr_id": wr_id, "opcode": "0", "status": status, "length": 0,
    });
    if !reason.is_null() {
        members["reason"] = reason.clone();
    }
    members
}

/// Queue pairs 17 and 18 of processes 0 and 1, connected to each other.
fn connected() -> Run {
    let mut run = Run::new();
    for (process, qp, peer) in [(0, 17, 18), (1, 18, 17)] {
        let members = json!({ "pid": process + 7, "role": "program", "command": ["ping"] });
        run.put(0, process, "process_began", members);
        let args = json!([["qp_type", "IBV_QPT_RC"]]);
        run.call(process, "ibv_create_qp", args, json!([["qp_num", {"qp": qp}]]));
        let to_rtr =
            json!([["qp", {"qp": qp}], ["qp_state", "IBV_QPS_RTR"], ["dest_qp_num", {"qp": peer}]]);
        run.call(process, "ibv_modify_qp", to_rtr, json!([]));
    }
    run
}

impl Run {
    fn done(&mut self, process: u32, qp: u32, status: &str, reason: &Value) -> &mut Self {
        self.put(1, process, "completion", completion(qp, 5, status, reason))
    }

    fn fails_of(&mut self, process: u32, qp: u32, status: &str, reason: &Value) -> &mut Self {
        let executed = json!({
            "qp": qp, "wr_id": 5, "opcode": "IBV_WR_SEND", "length": 0, "status": status, "reason": reason,
        });
        self.put(1, process, "executed", executed).done(process, qp, status, &Value::Null)
    }
}

#[test]
fn each_side_is_named_from_where_it_is_seen() {
    let small = json!({ "check": "receive_too_small", "length": 64, "room": 32, "grh": 0 });
    let mut run = connected();
    run.done(1, 18, "IBV_WC_LOC_LEN_ERR", &small);
    run.fails_of(0, 17, "IBV_WC_REM_INV_REQ_ERR", &small);
    let told = text(run.entries());
    let (receiver, sender) = told.split_once("\n\n").unwrap();
    assert!(receiver.contains("ping[8]: ") && sender.contains("ping[7]: "), "{told}");
    let check = "the message is longer than the receive: 64 bytes, room for 32";
    assert!(receiver.contains(&format!("on the receiver's side, which is this one: {check}")));
    assert!(sender.contains(&format!("on the peer's side: {check}")), "{told}");

    let reads = json!({ "check": "malformed", "why": "max_dest_rd_atomic" });
    let mut run = connected();
    run.fails_of(0, 17, "IBV_WC_REM_INV_REQ_ERR", &reads);
    let told = text(run.entries());
    assert!(told.contains("why: on the peer's side: ") && told.contains("max_dest_rd_atomic"));

    let right = json!({
        "check": "qp_access", "needed": "IBV_ACCESS_REMOTE_WRITE", "allowed": "0",
    });
    let mut run = connected();
    run.fails_of(0, 17, "IBV_WC_REM_INV_REQ_ERR", &right);
    assert!(text(run.entries()).contains("why: on the peer's side: the peer's queue pair does"));
}

#[test]
fn a_datagrams_receive_needs_room_for_its_header() {
    let small = json!({ "check": "receive_too_small", "length": 104, "room": 64, "grh": 40 });
    let mut run = connected();
    run.done(1, 18, "IBV_WC_LOC_LEN_ERR", &small);
    let told = text(run.entries());
    assert!(told.contains("40 bytes of GRH and 64 of message, room for 64"), "{told}");
    assert!(told.contains("usual cause: a datagram's receive needs 40 bytes more"), "{told}");
    // Where the sender is told nothing.
    let mut run = connected();
    let dropped = json!({
        "qp": 17, "wr_id": 5, "opcode": "IBV_WR_SEND", "length": 64, "status": "IBV_WC_SUCCESS",
        "reason": small,
    });
    run.put(1, 0, "executed", dropped);
    let told = text(run.entries());
    assert!(told.contains("ping[7]: the datagram wr_id=0x5 of qp 17 is sent, and dropped"));
    assert!(told.contains("why: on the peer's side: the message is longer than"), "{told}");
}

#[test]
fn the_last_receive_is_the_peers() {
    let not_ready = json!({
        "check": "receiver_not_ready", "waited": 9, "min_rnr_timer": 1, "rnr_retry": 1,
    });
    let told = |queue: Value, posts: bool| {
        let mut run = connected();
        let receive = json!({
            "queue": queue, "wr_id": 1, "length": 8, "sges": [], "seen": "at_call",
        });
        run.put(5_000, 1, "receive_posted", receive);
        if posts {
            run.posts(0, "IBV_WR_SEND");
        }
        run.fails_of(0, 17, "IBV_WC_RNR_RETRY_EXC_ERR", &not_ready);
        text(run.entries())
    };
    let last = told(json!({ "qp": 18 }), true);
    assert!(
        last.contains("min_rnr_timer 1, 0.01 ms); its last one was seen 701 ns before"),
        "{last}"
    );
    let none = told(json!({ "qp": 19 }), true);
    assert!(none.contains("; none of its receives was seen in this record"), "{none}");
    // Where only failures are recorded, receives are not.
    let unknown = told(json!({ "qp": 19 }), false);
    assert!(unknown.contains("min_rnr_timer 1, 0.01 ms)\n"), "{unknown}");
}

#[test]
fn a_key_of_0_is_that_of_a_region_without_remote_rights() {
    let key = |key: u32| json!({ "check": "key", "memory": "remote", "key": key });
    let told = |number| {
        let mut run = connected();
        run.fails_of(0, 17, "IBV_WC_REM_ACCESS_ERR", &key(number));
        text(run.entries())
    };
    let zero = told(0);
    assert!(!zero.contains("byte order") && zero.contains("IBV_ACCESS_REMOTE_"), "{zero}");
    assert!(told(0x100).contains("byte order"));
}

#[test]
fn what_has_become_of_a_key_is_told() {
    let told = |number: u32, deregisters: bool| {
        let mut run = connected();
        let done = json!([["mr", {"mr": 3}], ["lkey", {"key": 0x1234}], ["rkey", {"key": 0x1234}]]);
        run.call(1, "ibv_reg_mr", json!([]), done);
        if deregisters {
            run.call(1, "ibv_dereg_mr", json!([["mr", {"mr": 3}]]), json!([]));
        }
        let key = json!({ "check": "key", "memory": "remote", "key": number });
        run.fails_of(0, 17, "IBV_WC_REM_ACCESS_ERR", &key);
        text(run.entries())
    };
    let gone = told(0x1234, true);
    assert!(gone.contains("; it was that of mr 3 of ping[8], deregistered 1 ns before"), "{gone}");
    assert!(gone.contains("usual cause: the region was deregistered before"), "{gone}");
    let swapped = told(0x1234_u32.swap_bytes(), false);
    let order = "; 0x1234, the same bytes in another order, is that of mr 3 of ping[8]";
    assert!(swapped.contains(order) && swapped.contains("usual cause: byte order"), "{swapped}");
    assert!(told(0x1234, false).contains("; it is that of mr 3 of ping[8]\n"));
    assert!(told(0x99, false).contains("no region has the key: key 0x99\n"));
}

#[test]
fn a_peer_that_has_gone_is_told_from_one_that_never_was() {
    let silent = json!({
        "check": "no_response", "waited": 9, "timeout": 8, "retry_cnt": 1, "peer": { "is": "gone" },
    });
    let told = |prepare: &dyn Fn(&mut Run)| {
        let mut run = connected();
        prepare(&mut run);
        run.fails_of(0, 17, "IBV_WC_RETRY_EXC_ERR", &silent);
        text(run.entries())
    };
    let destroyed = told(&|run| {
        run.call(1, "ibv_destroy_qp", json!([["qp", {"qp": 18}]]), json!([]));
    });
    assert!(
        destroyed.contains("does not exist; ping[8] has destroyed qp 18 1 ns before"),
        "{destroyed}"
    );
    let ended = told(&|run| {
        run.put(1, 1, "process_ended", json!({}));
    });
    assert!(ended.contains("does not exist; ping[8] has ended 1 ns before"), "{ended}");
    assert!(ended.contains("usual cause: the peer has ended\n"), "{ended}");
    let to = |run: &mut Run, peer: u32| {
        let args = json!([["qp", {"qp": 17}], ["dest_qp_num", {"qp": peer}]]);
        run.call(0, "ibv_modify_qp", args, json!([]));
    };
    let never = told(&|run| to(run, 99));
    assert!(
        never.contains(
            "; no qp 99 was created in this record, and qp 18 of ping[8] is connected to this one"
        ),
        "{never}"
    );
    assert!(never.contains("usual cause: dest_qp_num is none of the peer's numbers"), "{never}");
    let swapped = told(&|run| to(run, 18 << 16));
    assert!(
        swapped.contains(", and qp 18 of ping[8] has the same bytes in another order"),
        "{swapped}"
    );
    let none = told(&|run| to(run, 0));
    assert!(none.contains("; dest_qp_num is 0\n"), "{none}");
}

#[test]
fn a_port_that_is_down_is_named() {
    let reason = json!({
        "check": "no_response", "waited": 9, "timeout": 8, "retry_cnt": 1, "peer": { "is": "no_path" },
    });
    let told = |events: &[&str]| {
        let mut run = connected();
        for event in events {
            let event = format!("IBV_EVENT_{event}");
            run.put(1, 0, "async_event", json!({ "event": event, "place": "port 1 of rxe0" }));
        }
        run.fails_of(0, 17, "IBV_WC_RETRY_EXC_ERR", &reason);
        text(run.entries())
    };
    let down = told(&["PORT_ERR"]);
    assert!(down.contains("or nobody has its LID; port 1 of rxe0 went down 1 ns before"), "{down}");
    assert!(!told(&["PORT_ERR", "PORT_ACTIVE"]).contains("; port 1"));
}

#[test]
fn causes_come_before_what_follows_from_them() {
    let key = json!({ "check": "key", "memory": "remote", "key": 1 });
    let flushed = json!({ "check": "flushed" });
    let mut run = connected();
    // The peer's queue pair fails first.
    for _ in 0..4 {
        run.done(1, 18, "IBV_WC_WR_FLUSH_ERR", &flushed);
    }
    let event = json!({ "event": "IBV_EVENT_QP_ACCESS_ERR", "element": { "qp": 18 } });
    run.put(1, 1, "async_event", event);
    run.fails_of(0, 17, "IBV_WC_REM_ACCESS_ERR", &key);
    run.done(0, 17, "IBV_WC_WR_FLUSH_ERR", &flushed);
    let told = text(run.entries());
    assert_eq!(told.lines().count(), 6, "{told}");
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].contains("ping[7]: the work request wr_id=0x5 (IBV_WR_SEND) of qp 17 fails"));
    let flushes = "    then: ping[8]: a work request of qp 18 is flushed (wr_id=0x5), 4 times, ";
    assert!(lines[3].starts_with(flushes), "{told}");
    assert!(lines[4].starts_with("    then: ping[8]: IBV_EVENT_QP_ACCESS_ERR of qp 18"), "{told}");
    assert!(
        lines[5].starts_with("    then: ping[7]: a work request of qp 17 is flushed"),
        "{told}"
    );
    // A failure without a known cause is reported all the same.
    let mut run = connected();
    run.done(1, 18, "IBV_WC_WR_FLUSH_ERR", &flushed);
    assert!(text(run.entries()).contains("the queue pair was in the error state already"));
}

#[test]
fn an_overrun_is_told_once() {
    let mut run = connected();
    for wr_id in 0..22 {
        let mut lost = completion(18, wr_id, "IBV_WC_SUCCESS", &Value::Null);
        lost["lost"] = json!(true);
        run.put(1, 1, "completion", lost);
        let event = json!({ "event": "IBV_EVENT_CQ_ERR", "element": { "cq": 18 } });
        run.put(1, 1, "async_event", event);
    }
    // Other queue pairs of the queue fail with it.
    let mut flushed = completion(19, 1, "IBV_WC_WR_FLUSH_ERR", &Value::Null);
    flushed["cq"] = json!(18);
    run.put(1, 1, "completion", flushed);
    let told = text(run.entries());
    assert_eq!(told.lines().count(), 5, "{told}");
    assert!(told.contains("    then: ping[8]: a work request of qp 19 is flushed"), "{told}");
    assert!(
        told.contains("ping[8]: a completion of qp 18 is lost, 22 times, at last at "),
        "{told}"
    );
    assert!(told.contains("    then: ping[8]: IBV_EVENT_CQ_ERR of cq 18, 22 times, "), "{told}");
}

#[test]
fn what_a_program_ends_itself_is_no_failure() {
    let flushed = json!({ "check": "flushed" });
    let to_err = json!([["qp", {"qp": 18}], ["qp_state", "IBV_QPS_ERR"]]);
    let mut run = connected();
    run.call(1, "ibv_modify_qp", to_err.clone(), json!([]));
    run.done(1, 18, "IBV_WC_WR_FLUSH_ERR", &flushed);
    let exit =
        json!({ "event": "RDMA_CM_EVENT_TIMEWAIT_EXIT", "id": 1, "status": 4, "private_data": 0 });
    run.put(1, 1, "connection_event", exit);
    assert_eq!(text(run.entries()), "Nothing went wrong that the device knows of.\n");
    // But what was still to be sent is lost.
    let mut run = stalled();
    let to_err = json!([["qp", {"qp": 17}], ["qp_state", "IBV_QPS_ERR"]]);
    run.call(0, "ibv_modify_qp", to_err, json!([]));
    run.done(0, 17, "IBV_WC_WR_FLUSH_ERR", &flushed);
    let told = text(run.entries());
    assert!(told.contains("when its program put the queue pair into the error state"), "{told}");
    assert_eq!(told.lines().count(), 3, "{told}");
}

#[test]
fn what_another_host_never_acknowledges_is_told() {
    let told = |later: u64, executes: bool| {
        let mut run = connected();
        let packet = json!({
            "direction": "sent", "from": "10.0.0.1", "to": "10.0.0.2", "opcode": "RC_SEND_ONLY",
            "qp": 17, "dest_qp": 18, "psn": 0, "length": 8,
        });
        for wr_id in [5, 6, 7] {
            let posted = json!({
                "qp": 17, "wr_id": wr_id, "opcode": "IBV_WR_SEND", "flags": [], "length": 8, "sges": [],
            });
            run.put(1, 0, "send_posted", posted).put(1, 0, "packet", packet.clone());
        }
        let last = if executes { 7 } else { 5 };
        let executed = json!({
            "qp": 17, "wr_id": last, "opcode": "IBV_WR_SEND", "length": 8, "status": "IBV_WC_SUCCESS",
        });
        run.put(1, 0, "executed", executed).put(later, 0, "process_ended", json!({}));
        text(run.entries())
    };
    let hung = told(SECOND, false);
    let what = "wr_id=0x6 of qp 17, with 1 behind it, was not acknowledged, for 1.00 s, when its ";
    assert!(hung.contains(what), "{hung}");
    assert!(told(SECOND, true).starts_with("Nothing"));
    assert!(told(SECOND / 20, false).starts_with("Nothing"));
}

#[test]
fn statuses_of_connection_events_are_told_in_words() {
    let mut run = connected();
    let event =
        json!({ "event": "RDMA_CM_EVENT_ADDR_ERROR", "id": 1, "status": -110, "private_data": 0 });
    run.put(1, 1, "connection_event", event);
    let told = text(run.entries());
    assert!(told.contains("why: nobody has answered for the address (status -110, ETIMEDOUT)"));
}

#[test]
fn what_happens_again_is_counted() {
    let mut run = stalled();
    for wr_id in 6..9 {
        let completion = |status: &str| json!({ "cq": 0, "qp": 17, "wr_id": wr_id, "opcode": "0", "status": status, "length": 0 });
        run.put(1, 0, "completion", completion("IBV_WC_REM_ACCESS_ERR"));
        run.put(1, 0, "completion", completion("IBV_WC_WR_FLUSH_ERR"));
    }
    let mut live = Live::new();
    let lines = heard(&mut live, &run);
    assert_eq!(lines.len(), 1, "{lines:?}");
    let what = "ping[7]: the work request wr_id=0x6 of qp 17 completes with IBV_WC_REM_ACCESS_ERR";
    assert!(
        lines[0].starts_with(&format!("{what}: the peer's memory does not allow it")),
        "{lines:?}"
    );
    assert_eq!(live.end(), [format!("2 more times: {what}\n")]);
}

/// A receiver that was never ready is the cause, though it has ended just before its sender.
#[test]
fn the_longest_reason_is_told() {
    let gone = json!({
        "check": "no_response", "waited": 0, "timeout": 14, "retry_cnt": 7, "peer": { "is": "gone" },
    });
    let ended_after = |ns: u64| {
        let mut run = stalled();
        let reason = json!({ "qp": 17, "wr_id": 5, "reason": gone });
        run.put(6 * SECOND, 0, "stalled", reason).put(ns, 0, "process_ended", json!({}));
        text(run.entries())
    };
    let at_once = ended_after(600_000);
    assert!(
        at_once.contains("why: on the peer's side: the receiver has no receive posted"),
        "{at_once}"
    );
    assert!(at_once.contains("; at last, for 600.0 us: the peer does not answer"), "{at_once}");
    assert!(at_once.contains("usual cause: the receiver posts its receives too late"), "{at_once}");
    let later = ended_after(7 * SECOND);
    assert!(later.contains("why: on the peer's side: the peer does not answer"), "{later}");
    assert!(!later.contains("at last"), "{later}");
}

/// A record with a posted send, of which nothing else is known.
fn posted() -> Run {
    let mut run = Run::new();
    run.put(0, 0, "process_began", json!({ "pid": 7, "role": "program", "command": ["ping"] }));
    let posted = json!({
        "thread": 7, "qp": 17, "wr_id": 5, "opcode": "IBV_WR_SEND", "flags": [], "length": 8, "sges": [],
    });
    run.put(0, 0, "send_posted", posted.clone()).put(0, 0, "send_posted", posted);
    run
}

#[test]
fn what_was_put_off_is_told_when_it_cannot_be_done_any_more() {
    let destroys = call("ibv_destroy_qp", json!([["qp", {"qp": 17}]]));
    for (what, members) in [("process_ended", json!({})), ("call", destroys)] {
        let mut run = posted();
        run.put(2_000_000, 0, what, members);
        let told = text(run.entries());
        let head = "the send work request wr_id=0x5 of qp 17, with 1 behind it, was not executed, for 2.0 ms";
        assert!(told.contains(head) && told.contains("it was put off"), "{told}");
    }
    // When its own process's memory is gone, the daemon tries it.
    let gone = json!({
        "check": "no_response", "waited": 0, "timeout": 14, "retry_cnt": 7, "peer": { "is": "unreachable" },
    });
    for (lasted, is_put_off) in [(30_000_000, true), (SECOND, false)] {
        let mut run = posted();
        run.put(1, 0, "stalled", json!({ "qp": 17, "wr_id": 5, "reason": gone }));
        let told = text(run.put(lasted, 0, "process_ended", json!({})).entries());
        assert_eq!(told.contains("it was put off"), is_put_off, "{told}");
        assert_eq!(told.contains("its memory cannot be reached"), !is_put_off, "{told}");
    }
    // The request is done, or the record does not show whether it is.
    let done = json!({
        "qp": 17, "wr_id": 5, "opcode": "IBV_WR_SEND", "length": 8, "status": "IBV_WC_SUCCESS",
    });
    let mut run = posted();
    run.put(1, 0, "executed", done.clone()).put(1, 0, "executed", done);
    run.put(1, 0, "process_ended", json!({}));
    assert!(text(run.entries()).starts_with("Nothing"));
    let mut run = posted();
    run.put(1, 0, "dropped", json!({ "entries": 3 })).put(1, 0, "process_ended", json!({}));
    assert!(!text(run.entries()).contains("was not executed"));
}

#[test]
fn sends_that_their_program_has_flushed_are_told() {
    let place = json!({ "call": "rdma_disconnect", "module": "/a", "offset": 16 });
    let mut shut = call("ibv_modify_qp", json!([["qp", {"qp": 17}], ["qp_state", "IBV_QPS_ERR"]]));
    let flushed = |wr_id: u64| {
        json!({
            "cq": 1, "qp": 17, "wr_id": wr_id, "opcode": "IBV_WC_SEND", "status": "IBV_WC_WR_FLUSH_ERR",
            "length": 0,
        })
    };
    for (site, by) in [(Some(place), "rdma_disconnect"), (None, "its program")] {
        if let Some(place) = site {
            shut["site"] = json!({ "call": 1, "number": 1, "place": place });
        } else {
            shut.as_object_mut().unwrap().remove("site");
        }
        let mut run = posted();
        run.put(1_000, 0, "call", shut.clone());
        // Receives have the same opcode.
        for wr_id in [9, 5, 5, 5] {
            run.put(1_000, 0, "completion", flushed(wr_id));
        }
        run.put(1, 0, "process_ended", json!({}));
        let told = text(run.entries());
        assert!(
            told.contains("wr_id=0x5 of qp 17 is flushed by its own program, 2 times"),
            "{told}"
        );
        let why = format!("why: on this side: {by} has put the queue pair into the error state");
        assert!(told.contains(&why), "{told}");
        assert_eq!(told.matches("why:").count(), 1, "{told}");
    }
}
