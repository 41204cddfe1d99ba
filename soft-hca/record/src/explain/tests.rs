use serde_json::json;

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
    run.entries().iter().filter_map(|entry| live.entry(entry)).collect()
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
        min_rnr_timer 0, 655.4 ms); usual cause: ";
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
