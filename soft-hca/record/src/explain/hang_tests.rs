use serde_json::json;

use crate::explain::text;
use crate::testing::{CHANNEL, Run, begun};

const SECOND: u64 = 1_000_000_000;

impl Run {
    fn arms(&mut self, solicited_only: u32) -> &mut Self {
        let args = json!([["cq", {"cq": 2}], ["solicited_only", solicited_only]]);
        self.call(0, "ibv_req_notify_cq", args, json!([]))
    }

    /// The problems when it is killed, or has ended by a thread, so much later.
    fn ended(&mut self, later: u64, exit_by: Option<u32>) -> String {
        let how = exit_by.map_or(json!({}), |thread| json!({ "exit_by": thread }));
        self.put(later, 0, "process_ended", how);
        text(self.entries())
    }
}

#[test]
fn who_waits_at_a_queue_that_gives_no_event_is_told() {
    let never = begun().comes(1, false).waits_at_channel().ended(SECOND, None);
    assert!(
        never.contains("ping[7]: a thread waits in ibv_get_cq_event (channel 7), for 1.00 s, ")
    );
    assert!(never.contains("1 completion has come in cq 2, the last at "), "{never}");
    assert!(never.contains(", and it was never armed\n"), "{never}");
    let late = begun().comes(1, false).arms(0).waits_at_channel().ended(SECOND, None);
    assert!(late.contains(", after its 1 completion had come, the last at "), "{late}");
    let other = begun().arms(1).comes(10_000, false).waits_at_channel().ended(SECOND, None);
    assert!(other.contains(", and it is armed for solicited ones only\n"), "{other}");
    let mut run = begun();
    run.arms(0).comes(10_000, false).put(
        1,
        0,
        "polled",
        json!({ "thread": 4720, "cq": 2, "found": 1 }),
    );
    let spent = run.waits_at_channel().ended(2 * SECOND, None);
    assert!(spent.contains("which has given its event at "), "{spent}");
}

#[test]
fn who_may_be_right_is_not_told_of() {
    let is_silent = |text: &str| assert!(!text.contains("a thread "), "{text}");
    // Not for long.
    is_silent(&begun().comes(1, false).waits_at_channel().ended(SECOND - 1, None));
    // The program has ended by another thread.
    is_silent(&begun().comes(1, false).waits_at_channel().ended(SECOND, Some(1)));
    // It is armed, and a peer that nobody knows may send something.
    let mut run = begun();
    run.put(
        1,
        0,
        "receive_posted",
        json!({
            "queue": { "qp": 17 }, "wr_id": 1, "length": 8, "sges": [], "seen": "at_post",
        }),
    );
    is_silent(&run.arms(0).waits_at_channel().ended(SECOND, None));
    // A completion that comes while the queue is being armed may have come before or after.
    let mut run = begun();
    run.arms(0).comes(5_000, false).put(
        1,
        0,
        "polled",
        json!({ "thread": 4720, "cq": 2, "found": 1 }),
    );
    run.put(
        1,
        0,
        "receive_posted",
        json!({
            "queue": { "qp": 17 }, "wr_id": 1, "length": 8, "sges": [], "seen": "at_post",
        }),
    );
    run.put(
        1,
        0,
        "receive_posted",
        json!({
            "queue": { "qp": 17 }, "wr_id": 1, "length": 8, "sges": [], "seen": "at_post",
        }),
    );
    is_silent(&run.waits_at_channel().ended(2 * SECOND, None));
    // It is unknown what was polled.
    let mut run = Run::new();
    let args = json!([["cqe", 8], ["channel", {"channel": CHANNEL}]]);
    run.call(0, "ibv_create_cq", args, json!([["cq", {"cq": 2}]]));
    let args = json!([["send_cq", {"cq": 2}], ["recv_cq", {"cq": 2}]]);
    run.call(0, "ibv_create_qp", args, json!([["qp_num", {"qp": 17}]]));
    run.put(
        1,
        0,
        "receive_posted",
        json!({
            "queue": { "qp": 17 }, "wr_id": 1, "length": 8, "sges": [], "seen": "at_call",
        }),
    );
    run.put(
        1,
        0,
        "receive_posted",
        json!({
            "queue": { "qp": 17 }, "wr_id": 2, "length": 8, "sges": [], "seen": "at_call",
        }),
    );
    is_silent(&run.comes(1, false).arms(0).waits_at_channel().ended(SECOND, None));
}

#[test]
fn the_thread_that_exits_while_it_waits_is_told_of() {
    let text = begun().comes(1, false).waits_at_channel().ended(SECOND, Some(4720));
    assert!(text.contains(", until its process ended\n"), "{text}");
}

#[test]
fn a_call_that_does_not_return_says_so() {
    let mut run = begun();
    let destroys = json!({
        "thread": 4720, "name": "ibv_destroy_cq", "args": [["cq", {"cq": 2}]], "duration": 9,
        "result": { "done": [] }, "unacknowledged": 2,
    });
    run.put(1, 0, "call", destroys);
    let shown = crate::text::Text::new().line(run.entries().last().unwrap());
    assert!(shown.contains("ibv_destroy_cq(cq=2) does not return until 2 events are acknowledged"));
    let told = run.ended(SECOND, None);
    assert!(told.contains("waits in ibv_destroy_cq (cq 2), for 1.00 s, until"), "{told}");
    assert!(
        told.contains("2 events were taken of cq 2 and not acknowledged, and the call returns")
    );
}

#[test]
fn who_polls_in_vain_is_told_of() {
    let polls = |run: &mut Run, t: u64| {
        let empty = json!({ "count": 1000, "first": t, "last": t + SECOND - 1 });
        run.put(
            SECOND,
            0,
            "polled",
            json!({ "thread": 4720, "cq": 2, "found": 0, "empty": empty }),
        );
    };
    let mut run = begun();
    polls(&mut run, 70_000);
    polls(&mut run, 70_000 + SECOND);
    let told = run.ended(1, None);
    assert!(told.contains("a thread polls cq 2 in vain, 2000 times, for "), "{told}");
    assert!(told.contains("qp 17, which reports to cq 2, has no send and no receive posted"));
}

#[test]
fn who_came_before_the_record_is_not_accused() {
    let told = Run::new().waits_at_channel().ended(SECOND, None);
    assert!(told.starts_with("Nothing"), "{told}");
    let mut run = Run::new();
    let empty = json!({ "count": 9, "first": 0, "last": SECOND });
    run.put(SECOND, 0, "polled", json!({ "thread": 1, "cq": 5, "found": 0, "empty": empty }));
    assert!(run.ended(1, None).starts_with("Nothing"));
    // A process of which entries are missing is not, either.
    let mut run = begun();
    run.comes(1, false).waits_at_channel().ended(SECOND, None);
    run.put(1, 0, "dropped", json!({ "entries": 3 }));
    assert!(!text(run.entries()).contains("a thread "));
}

#[test]
fn the_side_is_that_of_the_check() {
    for (reason, side) in [
        (json!({ "check": "cq_full", "side": "requester", "cq": 2 }), "on the sender's side"),
        (json!({ "check": "cq_full", "side": "responder", "cq": 3 }), "on the peer's side"),
        (json!({ "check": "flushed" }), "on this side"),
    ] {
        let mut run = begun();
        let posted = json!({
            "thread": 4720, "qp": 17, "wr_id": 5, "opcode": "IBV_WR_SEND", "flags": [], "length": 8,
            "sges": [],
        });
        run.put(1, 0, "send_posted", posted);
        run.put(1, 0, "stalled", json!({ "qp": 17, "wr_id": 5, "reason": reason }));
        let empty = json!({ "count": 9, "first": 1, "last": SECOND });
        let polled = json!({ "thread": 4720, "cq": 2, "found": 0, "empty": empty });
        let told = run.put(2 * SECOND, 0, "polled", polled).ended(1, None);
        let (_, hang) = told.split_once(": a thread polls ").expect(&told);
        assert!(hang.contains(&format!(" waits: {side}: ")), "{told}");
    }
}

/// An id with this event channel.
fn id(run: &mut Run, number: u32, channel: u32) {
    let args = json!([["channel", {"event_channel": channel}], ["ps", "RDMA_PS_TCP"]]);
    run.call(0, "rdma_create_id", args, json!([["id", {"cm_id": number}]]));
}

fn asks(run: &mut Run, name: &str, number: u32) {
    run.call(0, name, json!([["id", {"cm_id": number}]]), json!([]));
}

/// The thread waits for the connection manager.
fn waits(run: &mut Run, channel: u32) -> &mut Run {
    run.put(1, 0, "wait", json!({ "thread": 4720, "on": "connection", "fd": channel }))
}

#[test]
fn a_channel_without_an_id_gives_nothing() {
    let mut run = begun();
    id(&mut run, 1, 3);
    let told = waits(&mut run, 4).ended(SECOND, None);
    assert!(
        told.contains("why: no id uses this event channel: id 1 has event channel 3"),
        "{told}"
    );
    let mut run = begun();
    id(&mut run, 1, 3);
    id(&mut run, 2, 4);
    asks(&mut run, "rdma_destroy_id", 2);
    let told = waits(&mut run, 4).ended(SECOND, None);
    assert!(
        told.contains("no id uses this event channel: id 2, the last one, was destroyed"),
        "{told}"
    );
    let mut run = begun();
    id(&mut run, 2, 4);
    asks(&mut run, "rdma_destroy_id", 2);
    assert!(waits(&mut run, 4).ended(SECOND, None).contains("id 2, the last one, was destroyed"));
    // Its ids may be older than the record.
    let mut run = begun();
    assert!(waits(&mut run, 4).ended(SECOND, None).starts_with("Nothing"));
    // Another thread may make one.
    let mut run = begun();
    id(&mut run, 1, 3);
    run.put(1, 0, "polled", json!({ "thread": 4721, "cq": 2, "found": 1 }));
    assert!(!waits(&mut run, 4).ended(SECOND, None).contains("no id uses"));
}

#[test]
fn an_id_that_is_over_gets_nothing() {
    let is_told = |event: Option<(&str, i32)>, asked: Option<&str>| {
        let mut run = begun();
        id(&mut run, 1, 3);
        asks(&mut run, "rdma_connect", 1);
        if let Some((name, status)) = event {
            let event = json!({ "thread": 4720, "event": name, "id": 1, "status": status, "private_data": 0 });
            run.put(1, 0, "connection_event", event);
        }
        asked.into_iter().for_each(|call| asks(&mut run, call, 1));
        let told = waits(&mut run, 3).ended(SECOND, None);
        told.contains("nothing was called since that leads to another event")
    };
    assert!(is_told(Some(("RDMA_CM_EVENT_REJECTED", 28)), None));
    assert!(is_told(Some(("RDMA_CM_EVENT_UNREACHABLE", -110)), None));
    assert!(is_told(Some(("RDMA_CM_EVENT_ROUTE_RESOLVED", 0)), None));
    assert!(!is_told(Some(("RDMA_CM_EVENT_ADDR_ERROR", -110)), Some("rdma_resolve_addr")));
    assert!(!is_told(Some(("RDMA_CM_EVENT_ESTABLISHED", 0)), None));
    assert!(!is_told(Some(("RDMA_CM_EVENT_CONNECT_RESPONSE", 0)), None));
    assert!(!is_told(None, None));
}
