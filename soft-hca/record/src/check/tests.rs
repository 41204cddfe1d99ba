//! Runs for the rules, as far as `tests/check.rs` of the command line does not say it better.

use serde_json::json;
use soft_hca_verbs::{DeviceLimit, Refusal};

use super::*;
use crate::testing::{CLIENT, Run, SERVER, begun};

pub(super) fn findings(run: &Run) -> Vec<Finding> {
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

/// The P_Key tables of RoCE ports have one entry, and those of InfiniBand's sixteen.
#[test]
fn an_index_into_the_table_of_p_keys() {
    let rules = |index: u32, pkeys: u16| {
        let mut run = begun();
        let args = json!([["qp", {"qp": 17}], ["qp_state", "IBV_QPS_INIT"], ["pkey_index", index]]);
        run.call(SERVER, "ibv_modify_qp", args, json!([]));
        let mut checker = Checker::like(None, false, pkeys);
        run.entries().iter().for_each(|entry| checker.entry(entry));
        checker.end().iter().map(|found| found.rule).collect::<Vec<_>>()
    };
    for (index, pkeys) in [(0, 1), (0, 16), (1, 16), (15, 16)] {
        assert_eq!(rules(index, pkeys), [], "{index} of {pkeys}");
    }
    for (index, pkeys) in [(1, 1), (16, 16)] {
        assert_eq!(rules(index, pkeys), [Rule::PkeyIndex], "{index} of {pkeys}");
    }
}

/// A limit is an adapter's if it is one that adapters have: fields and tables have limits, too.
#[test]
fn what_is_refused_is_the_adapters_if_it_has_such_a_limit() {
    let found = |reason: Refusal, values: serde_json::Value| {
        let mut run = Run::new();
        let refused = json!({"errno": "EINVAL", "number": 22, "reason": reason, "values": values});
        let call = json!({
            "thread": 4720, "name": "ibv_modify_qp", "args": [], "duration": 1, "result": {"refused": refused},
        });
        run.put(1, SERVER, "call", call);
        let mut checker = Checker::like(Some("mlx5".into()), false, 1);
        run.entries().iter().for_each(|entry| checker.entry(entry));
        let refused = checker.end().into_iter().filter(|found| found.rule == Rule::Refused);
        refused.map(|found| found.what).collect::<Vec<_>>()
    };
    let values = || json!([["requested", 32], ["limit", 31]]);
    assert_eq!(
        found(Refusal::DeviceLimit(DeviceLimit::SendSge), values()),
        ["like mlx5, EINVAL: max_send_sge is more than the device's max_sge: 32 of 31"]
    );
    assert_eq!(
        found(Refusal::DeviceLimit(DeviceLimit::SharedReceiveQueues), json!([])),
        ["like mlx5, EINVAL: the device has no shared receive queues"]
    );
    for refusal in Refusal::all() {
        let is_limit = matches!(refusal, Refusal::DeviceLimit(_));
        assert_eq!(found(refusal, values()).len(), usize::from(is_limit), "{refusal:?}");
    }
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
    assert!(full.t < full.last, "{full:?}");
    assert!(full.is_suppressed_by("queue-full") && full.is_suppressed_by("queue-full:qp 18"));
    assert!(!full.is_suppressed_by("queue-full:qp 19") && !full.is_suppressed_by("cq-full"));
}

/// A post that passes through the hook shows that polls would, too: a program that never polls is found.
#[test]
fn who_never_polls_is_found() {
    for (what, members) in [
        (
            "receive_posted",
            json!({"queue": {"qp": 18}, "wr_id": 1, "length": 8, "sges": [], "seen": "at_post"}),
        ),
        (
            "send_posted",
            json!({
                "qp": 18, "wr_id": 9, "opcode": "IBV_WR_SEND", "flags": [], "length": 8, "sges": [],
                "site": {
                    "call": 1, "number": 1, "place": {"call": "ibv_post_send", "module": "a", "offset": 1},
                },
            }),
        ),
    ] {
        let mut run = posts(3);
        run.put(10, CLIENT, what, members);
        let found = findings(&run);
        let is_it = |found: &Finding| {
            found.rule == Rule::QueueFull
                && found.what.contains("sends that no polled completion ends")
        };
        assert!(found.iter().any(is_it), "{what}: {found:?}");
    }
}

/// A program whose polls are not seen is named as one without findings about polls.
#[test]
fn who_is_not_seen_to_poll_is_named() {
    let unseen = |run: &Run| {
        let mut checker = Checker::new();
        run.entries().iter().for_each(|entry| checker.entry(entry));
        checker.unseen()
    };
    let mut run = Run::new();
    run.put(0, CLIENT, "process_began", json!({"pid": 7, "role": "program", "command": ["ping"]}));
    assert_eq!(unseen(&run), [""; 0], "it has done nothing");
    let mut all = posts(3);
    all.put(0, CLIENT, "process_began", json!({"pid": 7, "role": "program", "command": ["ping"]}));
    assert_eq!(unseen(&all), ["ping[7]"]);
    polls(&mut all, 0);
    assert_eq!(unseen(&all), [""; 0]);
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

/// The attributes of a queue pair of `rdma_create_qp` come from the connection manager, whether it connects or not.
#[test]
fn a_connection_manager_watches_before_it_connects() {
    let never_ends = |asks: bool| {
        let mut run = Run::new();
        run.call(CLIENT, "ibv_create_qp", json!([]), json!([["qp_num", {"qp": 18}]]));
        if asks {
            run.call(CLIENT, "rdma_init_qp_attr", json!([["id", {"cm_id": 1}]]), json!([]));
        }
        let args = json!([["qp", {"qp": 18}], ["qp_state", "IBV_QPS_RTS"], ["rnr_retry", 7]]);
        run.call(CLIENT, "ibv_modify_qp", args, json!([]));
        findings(&run).into_iter().map(|found| found.rule).collect::<Vec<_>>()
    };
    assert_eq!(never_ends(true), []);
    assert_eq!(never_ends(false), [Rule::Timers]);
}

/// Deregisters the region of a send that the program does not know to be done, or does.
#[test]
fn a_region_is_deregistered_before_the_poll() {
    let deregisters = |happens: &dyn Fn(&mut Run)| {
        let mut run = pair("IBV_ACCESS_LOCAL_WRITE");
        receives_at(&mut run, SERVER, SERVERS);
        posts_at(&mut run, CLIENT, "IBV_WR_SEND", CLIENTS, None);
        executes(&mut run, CLIENT, "IBV_WR_SEND");
        receives(&mut run, SERVER);
        happens(&mut run);
        for process in [CLIENT, SERVER] {
            run.call(process, "ibv_dereg_mr", json!([["mr", {"mr": 17 + process}]]), json!([]));
        }
        findings(&run).into_iter().map(|found| (found.rule, found.place)).collect::<Vec<_>>()
    };
    let done = |run: &mut Run| {
        let completion = json!({
            "cq": 18, "qp": 18, "wr_id": 5, "opcode": "IBV_WC_SEND", "status": "IBV_WC_SUCCESS", "length": 8,
        });
        run.put(10, CLIENT, "completion", completion);
        run.put(10, CLIENT, "polled", json!({"cq": 18, "found": 1}));
    };
    let received = |run: &mut Run| {
        run.put(10, SERVER, "polled", json!({"cq": 17, "found": 1}));
    };
    let stale = |qp: &str| (Rule::RkeyStale, qp.to_owned());
    assert_eq!(deregisters(&|_| {}), [stale("qp 18"), stale("qp 17")]);
    assert_eq!(deregisters(&done), [stale("qp 17")]);
    assert_eq!(deregisters(&received), [stale("qp 18")]);
    let both = |run: &mut Run| {
        done(run);
        received(run);
    };
    assert_eq!(deregisters(&both), []);
    let answered = |run: &mut Run| {
        received(run);
        receives_at(run, CLIENT, CLIENTS + 64);
        receives(run, CLIENT);
        run.put(10, CLIENT, "polled", json!({"cq": 18, "found": 1}));
    };
    assert_eq!(deregisters(&answered), [], "the peer has answered");
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

/// A call that waits for acknowledgements: for ever, or until its thread goes on.
#[test]
fn who_waits_for_acknowledgements_in_vain_is_found() {
    let waits = |goes_on: bool| {
        let mut run = Run::new();
        run.put(10, CLIENT, "call", json!({
            "name": "ibv_destroy_cq", "args": [["cq", {"cq": 2}]], "duration": 1, "result": {"done": []},
            "unacknowledged": 2, "thread": 4720 + CLIENT,
        }));
        if goes_on {
            run.call(CLIENT, "ibv_dealloc_pd", json!([["pd", {"pd": 1}]]), json!([]));
        }
        findings(&run)
    };
    // Another thread acknowledges so many.
    let waits_for = |events: u32, acknowledged: u32| {
        let mut run = Run::new();
        run.put(10, CLIENT, "call", json!({
            "name": "rdma_destroy_id", "args": [["id", {"cm_id": 2}]], "duration": 1, "result": {"done": []},
            "unacknowledged": events, "thread": 4730,
        }));
        for _ in 0..acknowledged {
            run.call(CLIENT, "rdma_ack_cm_event", json!([["id", {"cm_id": 2}]]), json!([]));
        }
        findings(&run)
    };
    assert_eq!(waits_for(2, 2), []);
    assert_eq!(waits_for(2, 1)[0].what, "rdma_destroy_id waits for 1 event to be acknowledged");
    let [found] = &waits(false)[..] else { panic!("one finding") };
    assert_eq!((found.rule, &found.place[..]), (Rule::Unacked, "cq 2"));
    assert_eq!(found.what, "ibv_destroy_cq waits for 2 events to be acknowledged");
    assert_eq!(waits(true), []);
}

/// An extended queue gets two completions; its last polls find the given numbers, one before the second completion is
/// on record, which may happen, and one after that.
#[test]
fn completions_that_are_polled_twice_are_found() {
    let polls = |early: u32, last: u32, extended: bool| {
        let mut run = Run::new();
        run.call(SERVER, "ibv_create_cq_ex", json!([["cqe", 32]]), json!([["cq", {"cq": 2}]]));
        let polled =
            |found: u32| json!({"thread": 4720, "cq": 2, "found": found, "extended": extended});
        run.comes(10, false).put(10, SERVER, "polled", polled(early)).comes(10, false);
        run.put(10, SERVER, "polled", polled(last));
        findings(&run)
    };
    assert_eq!(polls(2, 0, true), []);
    assert_eq!(polls(1, 1, true), []);
    let [found] = &polls(2, 31, true)[..] else { panic!("one finding") };
    assert_eq!((found.rule, &found.place[..]), (Rule::PolledTwice, "cq 2"));
    assert_eq!(found.what, "extended polls have given 31 completions more than had come");
    // Without extended polls the counts tell nothing of the library.
    assert_eq!(polls(2, 31, false), []);
}

#[test]
fn children_of_fork() {
    let mut run = Run::new();
    let given = json!([["mr", {"mr": 1}], ["lkey", {"key": 1}]]);
    run.call(CLIENT, "ibv_reg_mr", json!([["pd", {"pd": 0}]]), given);
    // Older records have a status as if the kernel did not copy registered pages.
    let asked = json!([["fork_status", "IBV_FORK_DISABLED"]]);
    run.call(CLIENT, "fork", asked, json!([["child", "lives"]]));
    run.call(CLIENT, "ibv_dereg_mr", json!([["mr", {"mr": 1}]]), json!([]));
    assert_eq!(findings(&run), []);
    let mut run = Run::new();
    run.call(CLIENT, "ibv_poll_cq", json!([["child", 4722]]), json!([]));
    let refused = json!({"refused": {
        "errno": "EACCES", "number": 13, "reason": "child_of_fork",
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

const SERVERS: u64 = 0x1000;
const CLIENTS: u64 = 0x9000;

/// Two queue pairs that are connected: the server's, 17, and the client's, 18. Their regions are at [`SERVERS`] and at
/// [`CLIENTS`].
pub(super) fn pair(access: &str) -> Run {
    let mut run = Run::new();
    for (process, own, peer, start) in [(SERVER, 17, 18, SERVERS), (CLIENT, 18, 17, CLIENTS)] {
        run.call(process, "ibv_create_cq", json!([["cqe", 32]]), json!([["cq", {"cq": own}]]));
        let asked = json!([
            ["send_cq", {"cq": own}], ["recv_cq", {"cq": own}], ["max_send_wr", 8], ["max_recv_wr", 8],
            ["max_send_sge", 1], ["max_recv_sge", 1],
        ]);
        run.call(process, "ibv_create_qp", asked, json!([["qp_num", {"qp": own}]]));
        let args = json!([["qp", {"qp": own}], ["qp_state", "IBV_QPS_RTR"], ["dest_qp_num", {"qp": peer}]]);
        run.call(process, "ibv_modify_qp", args, json!([]));
        let args = json!([["addr", {"address": start}], ["length", 4096], ["access", access]]);
        run.call(process, "ibv_reg_mr", args, json!([["mr", {"mr": own}], ["lkey", {"key": own}]]));
    }
    run
}

/// A request of a queue pair with eight bytes.
fn posts_at(run: &mut Run, process: u32, opcode: &str, address: u64, remote: Option<u64>) {
    let mut members = json!({
        "qp": 17 + process, "wr_id": 5, "opcode": opcode, "flags": ["IBV_SEND_SIGNALED"], "length": 8,
        "sges": [{"address": address, "length": 8, "lkey": 17 + process}],
    });
    if let Some(remote) = remote {
        members["remote"] = json!({"address": remote, "rkey": 1});
    }
    run.put(10, process, "send_posted", members);
}

fn executes(run: &mut Run, process: u32, opcode: &str) {
    let members = json!({
        "qp": 17 + process, "wr_id": 5, "opcode": opcode, "length": 8, "status": "IBV_WC_SUCCESS",
    });
    run.put(10, process, "executed", members);
}

/// The server sends, something else happens, and a poll tells that the buffer has changed.
fn changed_after(access: &str, happens: impl FnOnce(&mut Run)) -> Vec<(Rule, String)> {
    let mut run = pair(access);
    posts_at(&mut run, SERVER, "IBV_WR_SEND", SERVERS, None);
    executes(&mut run, SERVER, "IBV_WR_SEND");
    happens(&mut run);
    let changed = json!([{"qp": 17, "wr_id": 5, "address": SERVERS, "length": 8}]);
    run.put(10, SERVER, "polled", json!({"cq": 17, "found": 1, "changed": changed}));
    findings(&run).into_iter().map(|found| (found.rule, found.place)).collect()
}

#[test]
fn a_buffer_that_the_program_changes() {
    let found = [(Rule::BufferEarly, "qp 17".to_owned())];
    assert_eq!(changed_after("IBV_ACCESS_LOCAL_WRITE", |_| {}), found);
    // The peer is here: what it writes is seen.
    assert_eq!(changed_after("IBV_ACCESS_REMOTE_WRITE", |_| {}), found);
    let beside = |run: &mut Run| {
        posts_at(run, CLIENT, "IBV_WR_RDMA_WRITE", CLIENTS, Some(SERVERS + 8));
        executes(run, CLIENT, "IBV_WR_RDMA_WRITE");
    };
    assert_eq!(changed_after("IBV_ACCESS_REMOTE_WRITE", beside), found);
}

#[test]
fn a_buffer_that_an_adapter_may_have_changed() {
    let none: [(Rule, String); 0] = [];
    let writes = |run: &mut Run| {
        posts_at(run, CLIENT, "IBV_WR_RDMA_WRITE", CLIENTS, Some(SERVERS));
    };
    assert_eq!(changed_after("IBV_ACCESS_REMOTE_WRITE", writes), none, "posted");
    let has_written = |run: &mut Run| {
        writes(run);
        executes(run, CLIENT, "IBV_WR_RDMA_WRITE");
    };
    assert_eq!(changed_after("IBV_ACCESS_REMOTE_WRITE", has_written), none, "executed");
    let reads = |run: &mut Run| {
        posts_at(run, SERVER, "IBV_WR_RDMA_READ", SERVERS + 4, Some(CLIENTS));
    };
    assert_eq!(changed_after("IBV_ACCESS_LOCAL_WRITE", reads), none, "a read into it");
    let receives = |run: &mut Run| {
        let sge = json!({"address": SERVERS, "length": 8, "lkey": 17});
        let receive = json!({
            "queue": {"qp": 17}, "wr_id": 1, "length": 8, "sges": [sge], "seen": "at_post",
        });
        run.put(10, SERVER, "receive_posted", receive);
        let completion = json!({
            "cq": 17, "qp": 17, "wr_id": 1, "opcode": "IBV_WC_RECV", "status": "IBV_WC_SUCCESS", "length": 8,
        });
        run.put(10, SERVER, "completion", completion);
    };
    assert_eq!(changed_after("IBV_ACCESS_LOCAL_WRITE", receives), none, "a message");
    let peer_ends = |run: &mut Run| {
        run.put(10, CLIENT, "process_ended", json!({"exit_by": 4721}));
    };
    let found = changed_after("IBV_ACCESS_REMOTE_WRITE", peer_ends);
    assert!(!found.iter().any(|(rule, _)| *rule == Rule::BufferEarly), "a peer that is not here");
}

/// The client asks for the connection of [`pair`], and the server accepts it. What each does then, or has done before.
fn connected(before: impl FnOnce(&mut Run), after: impl FnOnce(&mut Run)) -> Vec<(Rule, String)> {
    let mut run = pair("IBV_ACCESS_LOCAL_WRITE");
    run.call(
        CLIENT,
        "rdma_connect",
        json!([["id", {"cm_id": 1}], ["qp_num", {"qp": 18}]]),
        json!([]),
    );
    before(&mut run);
    run.call(
        SERVER,
        "rdma_accept",
        json!([["id", {"cm_id": 2}], ["qp_num", {"qp": 17}]]),
        json!([]),
    );
    run.call(CLIENT, "rdma_accept", json!([["id", {"cm_id": 1}]]), json!([]));
    after(&mut run);
    findings(&run).into_iter().map(|found| (found.rule, found.place)).collect()
}

fn receives_at(run: &mut Run, process: u32, address: u64) {
    let receive = json!({
        "queue": {"qp": 17 + process}, "wr_id": 1, "length": 8,
        "sges": [{"address": address, "length": 8, "lkey": 17 + process}], "seen": "at_post",
    });
    run.put(10, process, "receive_posted", receive);
}

/// A message comes into that.
fn receives(run: &mut Run, process: u32) {
    let completion = json!({
        "cq": 17 + process, "qp": 17 + process, "wr_id": 1, "opcode": "IBV_WC_RECV",
        "status": "IBV_WC_SUCCESS", "length": 8,
    });
    run.put(10, process, "completion", completion);
}

#[test]
fn receives_after_the_connection_could_send() {
    let server = |run: &mut Run| receives_at(run, SERVER, SERVERS);
    let client = |run: &mut Run| receives_at(run, CLIENT, CLIENTS);
    let sends = |run: &mut Run| posts_at(run, CLIENT, "IBV_WR_SEND", CLIENTS + 8, None);
    let late = |qp: &str| [(Rule::ReceiveLate, qp.to_owned())];
    let after = |run: &mut Run| {
        server(run);
        sends(run);
    };
    assert_eq!(connected(|_| {}, after), late("qp 17"));
    assert_eq!(connected(server, sends), [], "before it has accepted");
    let answers = |run: &mut Run| {
        server(run);
        posts_at(run, SERVER, "IBV_WR_SEND", SERVERS + 8, None);
        receives(run, CLIENT);
        sends(run);
    };
    assert_eq!(connected(client, answers), [], "the client waits for the server's message");
    let others = |run: &mut Run| {
        server(run);
        let asked = json!([["send_cq", {"cq": 18}], ["recv_cq", {"cq": 18}]]);
        run.call(CLIENT, "ibv_create_qp", asked, json!([["qp_num", {"qp": 19}]]));
        let completion = json!({
            "cq": 18, "qp": 19, "wr_id": 1, "opcode": "IBV_WC_RECV", "status": "IBV_WC_SUCCESS", "length": 8,
        });
        run.put(10, CLIENT, "completion", completion);
        sends(run);
    };
    assert_eq!(connected(|_| {}, others), [], "it was told by another connection");
    let server_sends = |run: &mut Run| {
        client(run);
        posts_at(run, SERVER, "IBV_WR_SEND", SERVERS + 8, None);
    };
    assert_eq!(connected(server, server_sends), late("qp 18"));
    let writes = |run: &mut Run| {
        server(run);
        posts_at(run, CLIENT, "IBV_WR_RDMA_WRITE", CLIENTS + 8, Some(SERVERS));
    };
    assert_eq!(connected(|_| {}, writes), [], "takes no receive");
}

#[test]
fn requests_in_a_state_that_is_none_for_them() {
    let mut run = pair("IBV_ACCESS_LOCAL_WRITE");
    run.put(10, CLIENT, "call", json!({
        "name": "ibv_post_send", "args": [["qp", {"qp": 18}]], "duration": 1, "result": {"refused": {
            "errno": "EINVAL", "number": 22, "reason": "send_before_rts", "values": [["state", "IBV_QPS_INIT"]],
        }},
    }));
    for (wr_id, peer) in [
        (1, json!({"is": "in_state", "state": "IBV_QPS_INIT"})),
        (2, json!({"is": "not_connected_to_us", "dest_qp": 0})),
        (3, json!({"is": "in_state", "state": "IBV_QPS_ERR"})),
        (4, json!({"is": "not_connected_to_us", "dest_qp": 5})),
    ] {
        let reason = json!({
            "check": "no_response", "waited": 0, "timeout": 14, "retry_cnt": 7, "peer": peer,
        });
        run.put(10, SERVER, "stalled", json!({"qp": 17, "wr_id": wr_id, "reason": reason}));
    }
    let found: Vec<_> =
        findings(&run).into_iter().map(|one| (one.rule, one.place, one.times)).collect();
    assert_eq!(found, [(Rule::State, "qp 18".into(), 1), (Rule::State, "qp 17".into(), 2)]);
}

/// A failed completion is polled together with others, and then a receive is posted.
fn posts_after_failure(statuses: &[&str], polls_again: bool) -> Vec<Rule> {
    let mut run = pair("IBV_ACCESS_LOCAL_WRITE");
    for status in statuses {
        let completion = json!({
            "cq": 17, "qp": 17, "wr_id": 9, "opcode": "IBV_WC_RECV", "status": status, "length": 8,
        });
        run.put(10, SERVER, "completion", completion);
    }
    run.put(10, SERVER, "polled", json!({"cq": 17, "found": statuses.len()}));
    if polls_again {
        run.put(10, SERVER, "polled", json!({"cq": 17, "found": 0}));
    }
    receives_at(&mut run, SERVER, SERVERS);
    findings(&run).into_iter().map(|found| found.rule).collect()
}

#[test]
fn a_failure_is_seen_when_it_comes_first_or_at_the_next_poll() {
    let [good, failed] = ["IBV_WC_SUCCESS", "IBV_WC_WR_FLUSH_ERR"];
    assert_eq!(posts_after_failure(&[failed], false), [Rule::AfterError]);
    assert_eq!(posts_after_failure(&[good, failed], false), []);
    assert_eq!(posts_after_failure(&[good, failed], true), [Rule::AfterError]);
}

#[test]
fn what_is_posted_in_the_error_state_is_flushed() {
    let mut run = pair("IBV_ACCESS_LOCAL_WRITE");
    let args = json!([["qp", {"qp": 17}], ["qp_state", "IBV_QPS_ERR"]]);
    run.call(SERVER, "ibv_modify_qp", args, json!([]));
    receives_at(&mut run, SERVER, SERVERS);
    run.call(SERVER, "ibv_dereg_mr", json!([["mr", {"mr": 17}]]), json!([]));
    assert_eq!(findings(&run), []);
}

#[test]
fn rules_have_names_of_their_own() {
    let names: BTreeSet<&str> = Rule::ALL.iter().map(|rule| rule.name()).collect();
    assert_eq!(names.len(), Rule::ALL.len());
}
