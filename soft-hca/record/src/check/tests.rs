//! Runs for the rules, as far as `tests/check.rs` of the command line does not say it better.

use serde_json::json;

use super::*;
use crate::testing::{CLIENT, Run};

fn findings(run: &Run) -> Vec<Finding> {
    let mut checker = Checker::new();
    run.entries().iter().for_each(|entry| checker.entry(entry));
    checker.end()
}

/// A queue pair with room for one send, of which so many are posted.
fn posts(sends: u64) -> Run {
    let mut run = Run::new();
    run.call(CLIENT, "ibv_create_cq", json!([["cqe", 32]]), json!([["cq", {"cq": 2}]]));
    let asked = json!([
        ["send_cq", {"cq": 2}], ["recv_cq", {"cq": 2}], ["max_send_wr", 1], ["max_send_sge", 1],
    ]);
    run.call(CLIENT, "ibv_create_qp", asked, json!([["qp_num", {"qp": 18}]]));
    for number in 0..sends {
        let members = json!({
            "qp": 18, "wr_id": number, "opcode": "IBV_WR_SEND", "flags": ["IBV_SEND_SIGNALED"],
            "length": 8, "sges": [{"address": 4096, "length": 8, "lkey": 1}],
        });
        run.put(10, CLIENT, "send_posted", members);
    }
    run
}

fn polls(run: &mut Run, found: u32) {
    run.put(10, CLIENT, "polled", json!({"cq": 2, "found": found}));
}

#[test]
fn what_is_polled_is_free_again() {
    let mut run = posts(1);
    let completion = json!({
        "cq": 2, "qp": 18, "wr_id": 0, "opcode": "IBV_WC_SEND", "status": "IBV_WC_SUCCESS", "length": 8,
    });
    run.put(10, CLIENT, "completion", completion);
    polls(&mut run, 1);
    assert_eq!(findings(&run), []);
}

#[test]
fn who_is_not_seen_to_poll_is_not_accused() {
    let mut run = posts(3);
    assert_eq!(findings(&run), []);
    polls(&mut run, 0);
    let [full] = &findings(&run)[..] else { panic!("one finding") };
    assert_eq!((full.rule, full.times, &full.place[..]), (Rule::QueueFull, 2, "qp 18"));
    assert!(full.is_suppressed_by("queue-full") && full.is_suppressed_by("queue-full:qp 18"));
    assert!(!full.is_suppressed_by("queue-full:qp 19") && !full.is_suppressed_by("cq-full"));
}

#[test]
fn what_is_missing_accuses_nobody() {
    let mut run = posts(1);
    run.put(10, CLIENT, "dropped", json!({"entries": 5}));
    let members = json!({
        "qp": 18, "wr_id": 9, "opcode": "IBV_WR_SEND", "flags": [], "length": 8, "sges": [],
    });
    run.put(10, CLIENT, "send_posted", members);
    polls(&mut run, 0);
    run.put(10, CLIENT, "process_ended", json!({"exit_by": 4721}));
    assert_eq!(findings(&run), []);
}

#[test]
fn objects_of_a_kind_are_one_finding() {
    let mut run = Run::new();
    for number in 1..4 {
        let given = json!([["mr", {"mr": number}], ["lkey", {"key": number}]]);
        run.call(CLIENT, "ibv_reg_mr", json!([["pd", {"pd": 0}]]), given);
    }
    run.call(CLIENT, "ibv_dereg_mr", json!([["mr", {"mr": 2}]]), json!([]));
    run.put(10, CLIENT, "process_ended", json!({"exit_by": 4721}));
    let [leaked] = &findings(&run)[..] else { panic!("one finding") };
    assert_eq!(leaked.what, "the program ended with mr 1, 3 not destroyed");
}

#[test]
fn events_that_were_not_acknowledged() {
    let mut run = Run::new();
    let place =
        json!({"call": 1, "number": 1, "place": {"function": "get", "module": "a", "offset": 1}});
    let asked = json!([["cqe", 32], ["channel", {"channel": 7}]]);
    run.call(CLIENT, "ibv_create_cq", asked, json!([["cq", {"cq": 2}]]));
    run.put(5, CLIENT, "wait", json!({"on": "completion", "fd": 7, "site": place}));
    let left = json!([{"of": {"cq": 2}, "events": 3}, {"of": {"cm_id": 1}, "events": 1}]);
    run.put(10, CLIENT, "process_ended", json!({"exit_by": 4721, "unacknowledged": left}));
    let found = findings(&run).into_iter().map(|finding| {
        (finding.place, finding.what, finding.source.map(|source| source.to_string()))
    });
    let what = |events| format!("the program ended with {events} not acknowledged");
    let expected = [("cq 2", "3 events", Some("get in a")), ("cm_id 1", "1 event", None)]
        .map(|(place, events, source)| (place.to_owned(), what(events), source.map(str::to_owned)));
    let mut found: Vec<_> = found.collect();
    found.sort_by(|a, b| b.0.cmp(&a.0));
    assert_eq!(found, expected);
}

#[test]
fn who_waits_for_acknowledgements_is_found_at_once() {
    let mut run = Run::new();
    run.put(10, CLIENT, "call", json!({
        "name": "ibv_destroy_cq", "args": [["cq", {"cq": 2}]], "duration": 1, "result": {"done": []},
        "unacknowledged": 2,
    }));
    let [found] = &findings(&run)[..] else { panic!("one finding") };
    assert_eq!((found.rule, &found.place[..]), (Rule::Unacked, "cq 2"));
    assert_eq!(found.what, "ibv_destroy_cq waits for 2 events to be acknowledged");
}

#[test]
fn children_of_fork() {
    let fork = |status: &str| {
        let mut run = Run::new();
        let given = json!([["mr", {"mr": 1}], ["lkey", {"key": 1}]]);
        run.call(CLIENT, "ibv_reg_mr", json!([["pd", {"pd": 0}]]), given);
        let asked = json!([["fork_status", status]]);
        run.call(CLIENT, "fork", asked, json!([["child", "lives"]]));
        run.call(CLIENT, "ibv_dereg_mr", json!([["mr", {"mr": 1}]]), json!([]));
        run
    };
    let [found] = &findings(&fork("IBV_FORK_DISABLED"))[..] else { panic!("one finding") };
    assert_eq!((found.rule, &found.place[..]), (Rule::Fork, "fork"));
    assert!(found.what.contains(" the memory of a registered region, "), "{}", found.what);
    assert_eq!(findings(&fork("IBV_FORK_ENABLED")), []);
    let mut run = Run::new();
    run.call(CLIENT, "ibv_poll_cq", json!([["child", 4722]]), json!([]));
    let refused = json!({"refused": {
        "errno": "EACCES", "number": 13, "reason": "a child of fork: the device file is its parent's",
    }});
    run.put(
        10,
        CLIENT,
        "call",
        json!({
            "name": "ibv_create_cq", "args": [], "duration": 1, "result": refused,
        }),
    );
    let found: Vec<_> = findings(&run).into_iter().map(|found| found.what).collect();
    let expected = [
        "ibv_poll_cq was called in a child of fork",
        "ibv_create_cq was called in a child of fork, and refused",
    ];
    assert_eq!(found, expected);
}

#[test]
fn rules_have_names_of_their_own() {
    let names: BTreeSet<&str> = Rule::ALL.iter().map(|rule| rule.name()).collect();
    assert_eq!(names.len(), Rule::ALL.len());
}
