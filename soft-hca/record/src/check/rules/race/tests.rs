use serde_json::json;

use crate::check::{Finding, Rule};
use crate::testing::Run;

/// The target of all, and two that write to it, the first one by two queue pairs.
const TARGET: u32 = 0;
const WRITER: u32 = 1;
const OTHER: u32 = 2;

/// Queue pairs of the two, with their processes, each connected to that of the target whose number is 10 less.
const FIRST: u32 = 21;
const SECOND: u32 = 22;
const OTHERS: u32 = 23;

/// Where the region of each process begins, whose key is ten times its queue pairs' completion queue.
const START: u64 = 0x1000;
/// Bytes beside it that no operation of a test has.
const ASIDE: u64 = 0x8000;

const WRITE: &str = "IBV_WR_RDMA_WRITE";
const READ: &str = "IBV_WR_RDMA_READ";
const SEND: &str = "IBV_WR_SEND";
const ADD: &str = "IBV_WR_ATOMIC_FETCH_AND_ADD";
const SWAP: &str = "IBV_WR_ATOMIC_CMP_AND_SWP";
const ATOMIC_WRITE: &str = "IBV_WR_ATOMIC_WRITE";

fn process_of(qp: u32) -> u32 {
    match qp {
        FIRST | SECOND => WRITER,
        OTHERS => OTHER,
        _ => TARGET,
    }
}

fn key(process: u32) -> u32 {
    10 * (process + 1)
}

/// An operation of eight bytes: of a queue pair, with an opcode, on own bytes and on the peer's.
#[derive(Clone, Copy)]
struct Op(u32, &'static str, u64, u64);

/// Three processes that are connected.
fn connected() -> Run {
    let mut run = Run::new();
    for (process, name) in [(TARGET, "target"), (WRITER, "writer"), (OTHER, "other")] {
        let began = json!({"pid": 100 + process, "role": "program", "command": [name]});
        run.put(10, process, "process_began", began);
        let asked = json!([["cqe", 32], ["channel", {"channel": 7}]]);
        run.call(process, "ibv_create_cq", asked, json!([["cq", {"cq": process}]]));
        let args = json!([
            ["addr", {"address": START}], ["length", 0x10000], ["access", "IBV_ACCESS_REMOTE_WRITE"],
        ]);
        let keys = json!([
            ["mr", {"mr": process}], ["lkey", {"key": key(process)}], ["rkey", {"key": key(process)}],
        ]);
        run.call(process, "ibv_reg_mr", args, keys);
        run.put(10, process, "polled", json!({"cq": process, "found": 0}));
    }
    for number in [FIRST, SECOND, OTHERS] {
        for (own, peer) in [(number, number - 10), (number - 10, number)] {
            connects(&mut run, own, peer);
        }
    }
    run
}

fn connects(run: &mut Run, own: u32, peer: u32) {
    let process = process_of(own);
    let asked = json!([
        ["send_cq", {"cq": process}], ["recv_cq", {"cq": process}], ["max_send_wr", 8], ["max_recv_wr", 8],
        ["max_send_sge", 1], ["max_recv_sge", 1],
    ]);
    run.call(process, "ibv_create_qp", asked, json!([["qp_num", {"qp": own}]]));
    let args =
        json!([["qp", {"qp": own}], ["qp_state", "IBV_QPS_RTR"], ["dest_qp_num", {"qp": peer}]]);
    run.call(process, "ibv_modify_qp", args, json!([]));
}

/// The name of a request that is as likely as any to be that of one operation.
fn name_of(op: Op) -> u64 {
    let Op(qp, opcode, ..) = op;
    u64::from(qp) * 100 + opcode.len() as u64
}

/// A request is posted, with flags.
fn posts_with(run: &mut Run, op: Op, flags: &[&str]) {
    let Op(qp, opcode, own, peer) = op;
    let is_inline = flags.contains(&"IBV_SEND_INLINE");
    let sge = json!({"address": own, "length": 8, "lkey": key(process_of(qp))});
    let mut members = json!({
        "qp": qp, "wr_id": name_of(op), "opcode": opcode, "flags": flags, "length": 8,
        "sges": if is_inline { json!([]) } else { json!([sge]) },
    });
    if opcode != SEND {
        let of = if process_of(qp) == TARGET { WRITER } else { TARGET };
        members["remote"] = json!({"address": peer, "rkey": key(of)});
    }
    run.put(10, process_of(qp), "send_posted", members);
}

fn posts(run: &mut Run, op: Op) {
    posts_with(run, op, &["IBV_SEND_SIGNALED"]);
}

/// It is executed, and its completion there.
fn completes(run: &mut Run, op: Op) {
    let Op(qp, opcode, ..) = op;
    let done = opcode.replace("_WR_", "_WC_").replace("ATOMIC_", "").replace("CMP_AND", "COMP");
    let done = done.replace("FETCH_AND", "FETCH").replace("_SWP", "_SWAP");
    let executed = json!({
        "qp": qp, "wr_id": name_of(op), "opcode": opcode, "length": 8, "status": "IBV_WC_SUCCESS",
    });
    let completion = json!({
        "cq": process_of(qp), "qp": qp, "wr_id": name_of(op), "opcode": done, "status": "IBV_WC_SUCCESS", "length": 8,
    });
    run.put(10, process_of(qp), "executed", executed);
    run.put(10, process_of(qp), "completion", completion);
}

fn polls(run: &mut Run, process: u32) {
    run.put(10, process, "polled", json!({"cq": process, "found": 1}));
}

fn completes_and_polls(run: &mut Run, op: Op) {
    completes(run, op);
    polls(run, process_of(op.0));
}

fn receive_is_posted(run: &mut Run, qp: u32, address: u64) {
    let sge = json!({"address": address, "length": 64, "lkey": key(process_of(qp))});
    let receive = json!({
        "queue": {"qp": qp}, "wr_id": qp, "length": 64, "sges": [sge], "seen": "at_post",
    });
    run.put(10, process_of(qp), "receive_posted", receive);
}

/// A message comes to a queue pair.
fn message_comes(run: &mut Run, qp: u32) {
    let completion = json!({
        "cq": process_of(qp), "qp": qp, "wr_id": qp, "opcode": "IBV_WC_RECV", "status": "IBV_WC_SUCCESS", "length": 8,
    });
    run.put(10, process_of(qp), "completion", completion);
}

fn is_held(run: &mut Run, op: Op, duration: u64) {
    let reason = json!({"check": "held", "duration": duration});
    let members = json!({"qp": op.0, "wr_id": name_of(op), "reason": reason});
    run.put(1, process_of(op.0), "stalled", members);
}

fn races(run: &Run) -> Vec<Finding> {
    let found = crate::check::tests::findings(run).into_iter();
    found.filter(|found| found.rule == Rule::Race).collect()
}

/// Whether there is a race if something happens.
fn is_race(happens: impl FnOnce(&mut Run)) -> bool {
    let mut run = connected();
    happens(&mut run);
    !races(&run).is_empty()
}

/// The same of an operation, what happens then, and another operation.
fn is_between(first: Op, happens: impl FnOnce(&mut Run), second: Op) -> bool {
    is_race(|run| {
        posts(run, first);
        happens(run);
        posts(run, second);
    })
}

const FIRST_WRITES: Op = Op(FIRST, WRITE, ASIDE, START);
const SECOND_WRITES: Op = Op(SECOND, WRITE, ASIDE, START);
const OTHER_WRITES: Op = Op(OTHERS, WRITE, ASIDE, START);
const FIRST_READS: Op = Op(FIRST, READ, ASIDE + 64, START);

#[test]
fn two_writes_and_where_they_were_made() {
    let mut run = connected();
    posts(&mut run, FIRST_WRITES);
    posts(&mut run, SECOND_WRITES);
    let [found] = &races(&run)[..] else { panic!("{:?}", races(&run)) };
    assert_eq!((found.process, &found.place[..]), (WRITER, "qp 22"));
    assert_eq!(
        found.what,
        "IBV_WR_RDMA_WRITE (wr_id 0x8a9) writes 0x1000 to 0x1008 of target[100]; IBV_WR_RDMA_WRITE (wr_id 0x845) of \
         qp 21, posted by writer[101], writes them, and nothing tells that it was complete"
    );
}

#[test]
fn bytes_and_their_neighbours() {
    let at = |from: u64| is_between(FIRST_WRITES, |_| {}, Op(SECOND, WRITE, ASIDE, from));
    assert!(at(START) && at(START + 7) && at(START + 4));
    assert!(!at(START + 8));
    // The same address in another process.
    assert!(!is_between(FIRST_WRITES, |_| {}, Op(SECOND, WRITE, START, START + 8)));
}

/// Two operations of different queues; atomic operations are no race with each other, nor is a read with one.
#[test]
fn operations_of_two_queues() {
    let races = |first, second| {
        is_between(Op(FIRST, first, ASIDE, START), |_| {}, Op(OTHERS, second, ASIDE, START))
    };
    for (first, second) in
        [(WRITE, WRITE), (WRITE, READ), (READ, WRITE), (ADD, WRITE), (WRITE, SWAP)]
    {
        assert!(races(first, second), "{first}, {second}");
    }
    for (first, second) in [(READ, READ), (ADD, ADD), (ADD, SWAP), (ADD, ATOMIC_WRITE), (ADD, READ)]
    {
        assert!(!races(first, second), "{first}, {second}");
    }
}

/// The specification's table of work requests of one queue, with F: only if the second one has a fence.
#[test]
fn operations_of_one_queue() {
    let races = |first, second, flags: &[&str]| {
        is_race(|run| {
            posts(run, Op(FIRST, first, ASIDE, START));
            posts_with(run, Op(FIRST, second, ASIDE + 64, START), flags);
        })
    };
    for (first, second) in [(READ, WRITE), (READ, ADD), (READ, ATOMIC_WRITE), (ADD, WRITE)] {
        assert!(races(first, second, &[]), "{first}, {second}");
        assert!(!races(first, second, &["IBV_SEND_FENCE"]), "{first}, {second}");
    }
    for (first, second) in
        [(WRITE, WRITE), (WRITE, READ), (WRITE, ADD), (ADD, ADD), (ADD, READ), (READ, READ)]
    {
        assert!(!races(first, second, &[]), "{first}, {second}");
    }
}

#[test]
fn bytes_that_are_fetched_and_sent_on() {
    let races = |first, second, flags: &[&str]| {
        is_race(|run| {
            posts(run, Op(FIRST, first, START, START));
            posts_with(run, Op(FIRST, second, START, ASIDE), flags);
        })
    };
    for (first, second) in [(READ, SEND), (READ, WRITE), (ADD, SEND)] {
        assert!(races(first, second, &[]), "{first}, {second}");
        assert!(!races(first, second, &["IBV_SEND_FENCE"]), "{first}, {second}");
        // The program itself has read them.
        assert!(!races(first, second, &["IBV_SEND_INLINE"]), "{first}, {second}");
    }
    assert!(!races(SEND, READ, &[]) && !races(READ, READ, &[]) && !races(ADD, ADD, &[]));
    // A fence between the two is one for all behind it.
    assert!(!is_race(|run| {
        posts(run, Op(FIRST, READ, START, START));
        posts_with(run, Op(FIRST, WRITE, ASIDE, ASIDE), &["IBV_SEND_FENCE"]);
        posts(run, Op(FIRST, SEND, START, 0));
    }));
}

#[test]
fn own_bytes_of_two_queues() {
    let races = |first, second| {
        is_between(Op(FIRST, first, START, ASIDE), |_| {}, Op(SECOND, second, START, ASIDE + 64))
    };
    assert!(races(READ, SEND) && races(SEND, READ) && races(READ, READ) && races(ADD, WRITE));
    assert!(!races(SEND, SEND) && !races(SEND, WRITE));
    assert!(!races(ADD, SWAP), "results that nobody needs");
}

#[test]
fn completions_that_were_polled() {
    let done = |run: &mut Run| completes_and_polls(run, FIRST_WRITES);
    assert!(is_between(FIRST_WRITES, |run| completes(run, FIRST_WRITES), OTHER_WRITES));
    assert!(!is_between(FIRST_WRITES, done, SECOND_WRITES));
    assert!(!is_between(FIRST_WRITES, done, OTHER_WRITES), "there may be a socket");
    // One behind it in its queue, and one of the other queue.
    for (behind, is_found) in [(FIRST, false), (SECOND, true)] {
        let behind = Op(behind, WRITE, ASIDE, ASIDE);
        let is_race = is_race(|run| {
            posts_with(run, FIRST_WRITES, &[]);
            posts(run, behind);
            completes_and_polls(run, behind);
            posts(run, OTHER_WRITES);
        });
        assert_eq!(is_race, is_found);
    }
    let event = |run: &mut Run| {
        completes(run, FIRST_WRITES);
        let woken = json!({"on": "completion", "fd": 7, "waited": 5, "event": true});
        run.put(10, WRITER, "woken", woken);
    };
    assert!(!is_between(FIRST_WRITES, event, OTHER_WRITES), "the event tells of it");
}

/// A message that the target has polled tells that what is before it in its queue has come, but for reads.
#[test]
fn messages_behind_an_operation() {
    let races = |first: Op, message: u32, flags: &[&str], polled: bool| {
        is_race(|run| {
            receive_is_posted(run, message - 10, ASIDE);
            posts(run, first);
            posts_with(run, Op(message, SEND, ASIDE + 128, 0), flags);
            message_comes(run, message - 10);
            if polled {
                polls(run, TARGET);
            }
            posts(run, OTHER_WRITES);
        })
    };
    assert!(!races(FIRST_WRITES, FIRST, &[], true));
    assert!(races(FIRST_WRITES, FIRST, &[], false));
    assert!(races(FIRST_WRITES, SECOND, &[], true));
    assert!(races(FIRST_READS, FIRST, &[], true));
    assert!(!races(FIRST_READS, FIRST, &["IBV_SEND_FENCE"], true));
}

/// Whose memory it is may watch it; while the write is held back it cannot have come.
#[test]
fn what_the_target_may_have_seen() {
    let goes_on = |run: &mut Run| posts(run, Op(OTHERS - 10, SEND, ASIDE, 0));
    let reads = Op(FIRST, READ, ASIDE, START);
    assert!(!is_between(FIRST_WRITES, goes_on, OTHER_WRITES));
    assert!(is_between(reads, goes_on, OTHER_WRITES), "a read leaves nothing to see");
    let target_sends = Op(FIRST - 10, SEND, START, 0);
    for (duration, is_found) in [(5, false), (1000, true)] {
        let held = |run: &mut Run| is_held(run, FIRST_WRITES, duration);
        assert_eq!(is_between(FIRST_WRITES, held, target_sends), is_found);
        let held = |run: &mut Run| {
            is_held(run, FIRST_WRITES, duration);
            goes_on(run);
        };
        assert_eq!(is_between(FIRST_WRITES, held, OTHER_WRITES), is_found);
    }
    // Requests behind it come no earlier.
    let behind = |run: &mut Run| {
        is_held(run, Op(FIRST, WRITE, ASIDE, ASIDE), 1000);
        posts(run, FIRST_WRITES);
        goes_on(run);
    };
    assert!(is_between(Op(FIRST, WRITE, ASIDE, ASIDE), behind, OTHER_WRITES));
}

/// A process whose two queue pairs are connected with two others of its own.
#[test]
fn memory_of_the_writers_own() {
    let races = |threads: [u32; 2]| {
        is_race(|run| {
            for (own, peer) in [(31, 33), (32, 34), (33, 31), (34, 32)] {
                connects(run, own, peer);
            }
            for (qp, thread) in [31, 32].into_iter().zip(threads) {
                let sge = json!({"address": ASIDE, "length": 8, "lkey": key(TARGET)});
                let members = json!({
                    "qp": qp, "wr_id": 1, "opcode": WRITE, "flags": [], "length": 8, "sges": [sge],
                    "remote": {"address": START, "rkey": key(TARGET)}, "thread": thread,
                });
                run.put(10, TARGET, "send_posted", members);
            }
        })
    };
    assert!(races([7, 7]));
    assert!(!races([7, 8]), "another thread may watch it");
}

#[test]
fn a_message_and_a_write_to_its_receive() {
    let races = |address: u64, before: bool, polled: bool| {
        is_race(|run| {
            receive_is_posted(run, SECOND - 10, address);
            if before {
                posts(run, FIRST_WRITES);
            }
            posts(run, Op(SECOND, SEND, ASIDE, 0));
            message_comes(run, SECOND - 10);
            if polled {
                polls(run, TARGET);
            }
            if !before {
                posts(run, OTHER_WRITES);
            }
        })
    };
    assert!(races(START, true, false) && races(START, false, false));
    assert!(!races(START, false, true));
    // A receive has more room than the message needs.
    assert!(!races(START - 8, true, false) && !races(START + 8, true, false));
    let messages = is_race(|run| {
        for qp in [FIRST, SECOND] {
            receive_is_posted(run, qp - 10, START);
            posts(run, Op(qp, SEND, ASIDE, 0));
        }
        [FIRST, SECOND].iter().for_each(|qp| message_comes(run, qp - 10));
    });
    assert!(!messages, "that is for the rule overlap");
}

/// The other writer gets, by an atomic operation, what one of the first writer's has left behind its write.
#[test]
fn a_lock_of_atomic_operations() {
    let races = |unlocks: u32| {
        let (add, swap) = (Op(unlocks, ADD, ASIDE, ASIDE), Op(OTHERS, SWAP, ASIDE, ASIDE));
        is_race(|run| {
            posts(run, FIRST_WRITES);
            posts(run, add);
            posts(run, swap);
            completes_and_polls(run, swap);
            posts(run, OTHER_WRITES);
        })
    };
    assert!(!races(FIRST));
    assert!(races(SECOND), "it is not behind the write");
}

#[test]
fn operations_that_are_over_though_nobody_polls() {
    let destroys = |qp: u32| {
        let args = json!([["qp", {"qp": qp}]]);
        move |run: &mut Run| _ = run.call(process_of(qp), "ibv_destroy_qp", args, json!([]))
    };
    assert!(!is_between(FIRST_WRITES, destroys(FIRST), OTHER_WRITES));
    assert!(!is_between(FIRST_WRITES, destroys(FIRST - 10), OTHER_WRITES), "its peer");
    let fails = |run: &mut Run| {
        let executed = json!({
            "qp": FIRST, "wr_id": name_of(FIRST_WRITES), "opcode": WRITE, "length": 0,
            "status": "IBV_WC_REM_ACCESS_ERR",
        });
        run.put(10, WRITER, "executed", executed);
    };
    assert!(!is_between(FIRST_WRITES, fails, OTHER_WRITES));
    let ends = |run: &mut Run| _ = run.put(10, WRITER, "process_ended", json!({}));
    assert!(!is_between(FIRST_WRITES, ends, OTHER_WRITES));
}

/// Polls that are not on record, or not in their order, make no race.
#[test]
fn who_is_not_seen_to_poll_makes_no_race() {
    let extended = is_race(|run| {
        run.put(10, WRITER, "polled", json!({"cq": WRITER, "found": 1, "extended": true}));
        posts(run, FIRST_WRITES);
        completes(run, FIRST_WRITES);
        posts(run, OTHER_WRITES);
    });
    assert!(!extended);
    // Neither do entries that are missing.
    let missing = |run: &mut Run| _ = run.put(10, WRITER, "dropped", json!({"entries": 5}));
    assert!(!is_between(FIRST_WRITES, missing, OTHER_WRITES));
    let mut run = Run::new();
    for (own, peer) in [(FIRST, FIRST - 10), (SECOND, SECOND - 10)] {
        connects(&mut run, own, peer);
        connects(&mut run, peer, own);
    }
    posts(&mut run, FIRST_WRITES);
    posts(&mut run, SECOND_WRITES);
    assert_eq!(races(&run), [], "without the hook");
}

/// Of a peer on another host only what its own queue orders is known.
#[test]
fn peers_on_another_host() {
    let packet = |run: &mut Run, qp: u32| {
        let members = json!({
            "direction": "sent", "from": "10.0.0.1", "to": "10.0.0.2", "opcode": "RC_ACKNOWLEDGE", "qp": qp,
            "dest_qp": qp - 10, "psn": 0, "length": 0,
        });
        run.put(10, process_of(qp), "packet", members);
    };
    let far = |first: Op, second: Op| {
        is_race(|run| {
            [first, second].iter().for_each(|op| packet(run, op.0));
            posts(run, first);
            posts(run, second);
        })
    };
    assert!(!far(FIRST_WRITES, SECOND_WRITES));
    assert!(far(Op(FIRST, READ, START, START), Op(FIRST, SEND, START, 0)));
}

/// Addresses that are not those of memory.
#[test]
fn regions_with_addresses_of_their_own() {
    for (args, is_found) in [
        (
            json!([["addr", {"address": START}], ["length", 64], ["access", "IBV_ACCESS_REMOTE_WRITE"]]),
            true,
        ),
        (
            json!([
                ["addr", {"address": ASIDE}], ["length", 64], ["access", "IBV_ACCESS_REMOTE_WRITE"],
                ["iova", {"address": START}],
            ]),
            false,
        ),
        (
            json!([["addr", {"address": START}], ["length", 64], ["access", "IBV_ACCESS_ZERO_BASED"]]),
            false,
        ),
        (
            json!([["addr", {"address": START}], ["length", 4], ["access", "IBV_ACCESS_REMOTE_WRITE"]]),
            false,
        ),
    ] {
        let found = is_race(|run| {
            let key = json!({"key": key(TARGET)});
            run.call(TARGET, "ibv_reg_mr", args.clone(), json!([["mr", {"mr": 9}], ["rkey", key]]));
            posts(run, FIRST_WRITES);
            posts(run, OTHER_WRITES);
        });
        assert_eq!(found, is_found, "{args}");
    }
}
