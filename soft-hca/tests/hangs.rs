//! `soft-hca explain` of programs that hang, `hangs/hangs.c`, and of such that do not.

use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use programs::place::Place;
use programs::program::Program;
use programs::signal::{go_on, stop};
use programs::{
    LIMIT, assert_has, comes_about, compile, headers, installed, polls_are_seen, rping,
    the_processors,
};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hangs/hangs.c");

/// A case of the program, and what is explained of it.
type Case = (&'static str, &'static [&'static str]);

/// Cases at a time: most sleep.
const AT_ONCE: usize = 4;

/// The text of a program in which nothing is wrong.
const NOTHING: &[&str] = &["Nothing went wrong that the device knows of.\n"];

const QUEUES: [Case; 18] = [
    (
        "never_armed",
        &[
            ": a thread waits in ibv_get_cq_event (channel ",
            ", until its process was killed\n    why: 1 completion has come in cq ",
            ", and it was never armed\n    usual cause: ibv_req_notify_cq is missing",
        ],
    ),
    (
        "armed_late",
        &[
            " waits in ibv_get_cq_event",
            " s, after its 1 completion had come, the last at ",
            "poll once more after arming",
        ],
    ),
    ("armed_in_time", NOTHING),
    (
        "solicited_only",
        &["1 completion has come in cq ", ", and it is armed for solicited ones only"],
    ),
    (
        "armed_once",
        &[
            "which has given its event ",
            "1 completion of it is not polled, and it was not armed again",
        ],
    ),
    ("silent", &["which has given its event ", "no completion, if one comes, gives an event"]),
    (
        "unacknowledged",
        &[
            ": a thread waits in ibv_destroy_cq (cq ",
            "why: 1 event was taken of cq ",
            "usual cause: ibv_ack_cq_events is missing",
        ],
    ),
    ("acknowledged", NOTHING),
    (
        "both_receive",
        &[
            " has 1 receive posted, and its peer sends nothing: ",
            "it has posted no send, and qp ",
            "usual cause: both sides wait for the other's message",
        ],
    ),
    ("waits_for_work", NOTHING),
    ("ends_while_one_waits", NOTHING),
    (
        "peer_ends",
        &[
            ": a thread waits in ibv_get_cq_event",
            " has 1 receive posted, and its peer, qp ",
            ", has ended at ",
            "usual cause: nobody tells this side of the peer's end",
        ],
    ),
    (
        "peer_waits",
        &[
            " has 1 receive posted, and its peer sends nothing: hangs[",
            "it has posted no send, and qp ",
        ],
    ),
    ("peer_works", NOTHING),
    (
        "unsignaled",
        &[
            ": a thread polls cq ",
            " in vain, ",
            "1 send of it is done without a completion: IBV_SEND_SIGNALED was not set",
        ],
    ),
    ("unposted", &[": a thread polls cq ", "has no send and no receive posted"]),
    (
        "other_queue",
        &[
            ": a thread polls cq ",
            "has no receive posted, and reports to cq ",
            ", too, which has 1 completion and was never polled\n",
            "usual cause: the program polls another queue than its requests complete to",
        ],
    ),
    (
        "stalled",
        &[
            " still waited, for ",
            "3 receives were posted there, 3 messages have taken one, and 2 sends wait",
            ": a thread polls cq ",
            "with 1 behind it, waits: on the peer's side: the receiver has no receive posted",
        ],
    ),
];

const CONNECTIONS: [Case; 11] = [
    (
        "not_taken",
        &[
            ": a thread waits in rdma_get_cm_event (channel ",
            "why: rdma_connect of id ",
            "has not taken the request from its event channel: it has taken none yet",
        ],
    ),
    (
        "not_accepted",
        &[" has taken the request ", "and has called neither rdma_accept nor rdma_reject"],
    ),
    (
        "not_completed",
        &["why: rdma_accept of id ", "has not taken the answer from the event channel of its id "],
    ),
    (
        "wrong_channel",
        &[
            "why: rdma_resolve_addr of id ",
            "its event goes to event channel ",
            ", where nobody waits",
        ],
    ),
    (
        "ignores_disconnected",
        &[
            "why: rdma_disconnect of id ",
            " has taken RDMA_CM_EVENT_DISCONNECTED of its id ",
            "and has called neither rdma_disconnect nor rdma_destroy_id",
        ],
    ),
    (
        "unused_channel",
        &[
            ": a thread waits in rdma_get_cm_event (channel ",
            "why: no id uses this event channel: id ",
            "usual cause: rdma_get_cm_event is called for another channel",
        ],
    ),
    (
        "after_rejection",
        &[
            ": a thread waits in rdma_get_cm_event (channel ",
            "why: RDMA_CM_EVENT_REJECTED of id ",
            "and nothing was called since that leads to another event",
            "usual cause: the event was not looked at",
        ],
    ),
    (
        "flushes_sends",
        &[
            " still waited, for ",
            ": the send work request wr_id=0x5 of qp ",
            " is flushed by its own program, 2 times, at last at ",
            "why: on this side: rdma_disconnect has put the queue pair into the error state ",
            "usual cause: the connection is ended before the sends are done, and they are lost",
        ],
    ),
    (
        "event_kept",
        &[
            ": a thread waits in rdma_destroy_id (cm_id ",
            "why: 1 event was taken of cm_id ",
            "RDMA_CM_EVENT_DISCONNECTED by thread ",
            "usual cause: rdma_ack_cm_event is missing",
        ],
    ),
    ("event_given_back", NOTHING),
    ("event_given_back_late", NOTHING),
];

/// The output of a command.
fn said(place: &Place, arguments: &[&str]) -> String {
    let output = place.command(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Records each case, and compares what is explained.
fn explain(name: &str, cases: &[Case]) {
    if !headers(&["rdma/rdma_cma.h"].into()) {
        return;
    }
    let _processors = the_processors();
    let place = Place::new(name);
    let Some(program) = compile(&place, SOURCE, &["ibverbs", "rdmacm", "pthread"]) else { return };
    let left = Mutex::new(cases.iter());
    let next = || left.lock().unwrap().next();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((case, expected)) = next() {
                    explain_case(&place, &program, case, expected);
                }
            });
        }
    });
    place.assert_gone();
}

fn explain_case(place: &Place, program: &str, case: &str, expected: &[&str]) {
    let file = format!("{case}.shr");
    let output = place.command(&["record", "-o", &file, "--", program, case]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains(" entries in "), "{output:?}");
    let text = said(place, &["explain", &file]);
    println!("{case}:\n{text}");
    assert_has(&text, expected);
    assert_eq!(text.starts_with("Nothing"), expected == NOTHING, "{case}: {text}");
    if case == "event_given_back_late" {
        assert_has(
            &said(place, &["show", &file]),
            &["(id=2) does not return", "rdma_ack_cm_event(id=2) = 0"],
        );
    }
    if case == "unacknowledged" {
        let shown = said(place, &["show", &file]);
        assert_has(&shown, &["ibv_destroy_cq(cq=1) does not return until 1 event is acknowledged"]);
    }
}

#[test]
fn completions_that_nobody_is_told_of() {
    if !polls_are_seen() {
        return;
    }
    explain("hangs-queues", &QUEUES);
}

#[test]
fn events_that_do_not_come() {
    explain("hangs-connections", &CONNECTIONS);
}

/// Lines about a program while it hangs, by `soft-hca run --explain` and by `soft-hca ls --why`.
const LIVE: [(&str, &str); 14] = [
    ("never_armed", ", and it is not armed; usual cause: ibv_req_notify_cq is missing"),
    (
        "armed_late",
        ", after its 1 completion had come, and gives an event for the next one only; usual ",
    ),
    ("solicited_only", "1 completion has come in cq 1, and it is armed for solicited ones only; "),
    (
        "silent",
        " is not armed: no completion, if one comes, gives an event; usual cause: ibv_req_notify_cq",
    ),
    ("both_receive", " has 1 receive posted, and its peer sends nothing: "),
    (
        "not_taken",
        " has 1 event in an event channel that it does not read, the first is \
         RDMA_CM_EVENT_CONNECT_REQUEST of id ",
    ),
    ("not_accepted", " has taken the request (id 2), and has called neither rdma_accept nor"),
    (
        "not_completed",
        " has not taken the answer from the event channel of its id 1; usual cause: ",
    ),
    (
        "wrong_channel",
        " in an event channel that it does not read, the first is RDMA_CM_EVENT_ADDR_RESOLVED of id 1",
    ),
    (
        "ignores_disconnected",
        " has taken RDMA_CM_EVENT_DISCONNECTED of its id 2, and has called neither",
    ),
    (
        "unused_channel",
        " s: no id uses this event channel; usual cause: rdma_get_cm_event is called for another",
    ),
    (
        "after_rejection",
        " s: the connection of id 1 was rejected or has failed, and nothing was called since that",
    ),
    (
        "handler_waits",
        " has 1 completion that nobody has polled; usual cause: the peer's thread waits",
    ),
    (
        "cm_handler_waits",
        " has 1 event in an event channel that it does not read, the first is \
         RDMA_CM_EVENT_ESTABLISHED of id ",
    ),
];

/// The recording ends while a killed process has not exited yet.
#[test]
fn an_end_that_takes_a_while() {
    let place = Place::new("hangs-slow");
    let Some(program) = compile(&place, SOURCE, &["ibverbs", "rdmacm", "pthread"]) else { return };
    let expected = [
        ": a thread waits in ibv_get_cq_event (channel ",
        ", until its process was killed\n",
        "was never armed",
    ];
    explain_case(&place, &program, "slow_to_end", &expected);
    place.assert_gone();
}

#[test]
fn who_hangs_is_told_of_at_once() {
    if !headers(&["rdma/rdma_cma.h"].into()) {
        return;
    }
    let place = Place::new("hangs-live");
    let Some(program) = compile(&place, SOURCE, &["ibverbs", "rdmacm", "pthread"]) else { return };
    let why = || said(&place, &["ls", "--why", "--fabric", place.fabric_name()]);
    for (case, expected) in LIVE {
        let mut running = place.start_in(&format!("{program} {case} 1000"), explains);
        let is_said = comes_about(LIMIT, || running.output().contains(expected));
        assert!(is_said, "{case}: {}", running.output());
        assert_has(&why(), &[expected]);
        end(&running);
        running.wait();
        place.assert_gone();
    }
    // The call that does not return is known to who records or explains only.
    let mut running = place.start_in(&format!("{program} unacknowledged 1000"), explains);
    let expected = "a thread waits in ibv_destroy_cq (cq 1), for ";
    assert!(comes_about(LIMIT, || running.output().contains(expected)), "{}", running.output());
    end(&running);
    running.wait();
    place.assert_gone();
}

/// Lines of `soft-hca ls --why` and `soft-hca run --explain` about programs that poll in vain.
const POLLS: [(&str, &str); 4] = [
    ("unsignaled", " is done without a completion: IBV_SEND_SIGNALED was not set; usual cause: "),
    ("unposted", " has no send and no receive posted; usual cause: "),
    (
        "stalled",
        ", with 1 behind it, waits: on the peer's side: the receiver has no receive posted",
    ),
    ("other_queue", ", too, which has 1 completion and was never polled; usual cause: "),
];

#[test]
fn who_polls_in_vain() {
    if !polls_are_seen() {
        return;
    }
    let _processors = the_processors();
    let place = Place::new("hangs-polls");
    let Some(program) = compile(&place, SOURCE, &["ibverbs", "rdmacm", "pthread"]) else { return };
    let why = || said(&place, &["ls", "--why", "--fabric", place.fabric_name()]);
    let in_vain = POLLS.map(|(case, expected)| (case, " in vain for ", expected));
    // The line of a program that waits for one that polls.
    let waits = ("peer_polls", " waits in ibv_get_cq_event for ", " in vain, since ");
    for (case, what, expected) in in_vain.into_iter().chain([waits]) {
        let mut running = place.start_in(&format!("{program} {case} 1000"), explains);
        let has =
            |text: &str| text.lines().any(|line| line.contains(what) && line.contains(expected));
        assert!(comes_about(LIMIT, || has(&why())), "{case}: {}", why());
        assert!(comes_about(LIMIT, || has(&running.output())), "{case}: {}", running.output());
        end(&running);
        running.wait();
        place.assert_gone();
    }
}

#[test]
fn who_is_stopped_and_who_waits_for_work() {
    let place = Place::new("hangs-stopped");
    let Some(program) = compile(&place, SOURCE, &["ibverbs", "rdmacm", "pthread"]) else { return };
    let why = || said(&place, &["ls", "--why", "--fabric", place.fabric_name()]);
    let mut running = place.start(&format!("{program} waits_for_work 1000"));
    // It has done all that it does when its thread has waited for long.
    running.wait_until(|| {
        place.objects().iter().filter(|line| line.contains(" state RTS ")).count() == 2
    });
    thread::sleep(Duration::from_millis(1500));
    assert_has(&why(), &["nothing waits for what does not come"]);
    stop(&running);
    assert!(comes_about(LIMIT, || why().contains("] is stopped: ")), "{}", why());
    go_on(&running);
    assert!(comes_about(LIMIT, || !why().contains("] is stopped: ")), "{}", why());
    running.kill();
    place.assert_gone();
}

/// Has what goes wrong said while it happens.
fn explains(command: &mut Command) -> &mut Command {
    command.env("SOFT_HCA_EXPLAIN", "1")
}

/// SIGTERM, which `soft-hca` passes on.
fn end(program: &Program) {
    let sent = Command::new("kill").arg(program.pid().to_string()).status().unwrap();
    assert!(sent.success());
}

/// Programs of the distribution, which wait in all these ways.
#[test]
fn of_programs_that_are_right_there_is_nothing() {
    if !installed(&["rping", "ibv_rc_pingpong", "sh"]) {
        return;
    }
    let place = Place::new("hangs-none");
    let pair = |server: &str, client: &str| {
        format!("{server} & until {client} 2>/dev/null; do sleep 0.2; done; wait")
    };
    let events = "ibv_rc_pingpong -e -g 1 -n 50 -p 18519";
    let rpings = rping::script(&place, 7471, 3);
    let killed = format!(
        "rping -s -P -a 127.0.0.1 -p 7471 & server=$!; {}; rping -c -a 127.0.0.1 -p 7471 -C 3; \
         sleep 1.5; kill $server; wait",
        rping::listens(&place, 7471),
    );
    for line in [rpings, pair(events, &format!("{events} 127.0.0.1")), killed] {
        let record = ["record", "-o", "run.shr", "--", "sh", "-c", &line];
        let output = place.command(&record).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stderr).contains(" entries in "), "{output:?}");
        let text = said(&place, &["explain", "run.shr"]);
        assert!(!text.contains(": a thread "), "{line}: {text}");
    }
    place.assert_gone();
}
