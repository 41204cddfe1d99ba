//! Reports to both sides of a request that fails: statuses, asynchronous events, states. As
//! `docs/errors.md` has it, within a fabric and by its link to other hosts alike.

use programs::compile;
use programs::hosts::{Hosts, INTERFACE};
use programs::place::Place;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/errors/errors.c");

/// A case of the program, and what it prints behind its name.
const CASES: [(&str, &str); 19] = [
    (
        "rc-small",
        "requester [remote invalid request error]; responder [local length error] \
         [Work Request Flushed Error]; events; and; states ERR ERR",
    ),
    (
        "rc-small-srq",
        "requester [remote invalid request error]; responder [local length error]; events; \
         and [last WQE reached]; states ERR ERR",
    ),
    ("uc-small", "requester [success] [success]; responder [success]; events; and; states RTS RTS"),
    (
        "uc-small-srq",
        "requester [success] [success]; responder [local length error] [success]; events; \
         and; states RTS RTS",
    ),
    ("ud-small", "requester [success] [success]; responder [success]; events; and; states RTS RTS"),
    (
        "ud-small-srq",
        "requester [success] [success]; responder [local length error] [success]; events; \
         and; states RTS RTS",
    ),
    (
        "ud-long",
        "requester [success] [local length error]; responder [success]; events; and; \
         states ERR RTS",
    ),
    (
        "write-key",
        "requester [remote access error]; responder [Work Request Flushed Error] \
         [Work Request Flushed Error]; events; \
         and [local access violation work queue error]; states ERR ERR",
    ),
    (
        "write-range",
        "requester [remote access error]; responder [Work Request Flushed Error] \
         [Work Request Flushed Error]; events; \
         and [local access violation work queue error]; states ERR ERR",
    ),
    (
        "read-key",
        "requester [remote access error]; responder [Work Request Flushed Error] \
         [Work Request Flushed Error]; events; \
         and [local access violation work queue error]; states ERR ERR",
    ),
    (
        "atomic-key",
        "requester [remote access error]; responder [Work Request Flushed Error] \
         [Work Request Flushed Error]; events; \
         and [local access violation work queue error]; states ERR ERR",
    ),
    (
        "write-key-srq",
        "requester [remote access error]; responder; events; \
         and [local access violation work queue error] [last WQE reached]; states ERR ERR",
    ),
    (
        "forbidden-write",
        "requester [remote invalid request error]; responder [Work Request Flushed Error] \
         [Work Request Flushed Error]; events; and [invalid request local work queue error]; \
         states ERR ERR",
    ),
    (
        "forbidden-read",
        "requester [remote invalid request error]; responder [Work Request Flushed Error] \
         [Work Request Flushed Error]; events; and [invalid request local work queue error]; \
         states ERR ERR",
    ),
    (
        "atomic-unaligned",
        "requester [remote invalid request error]; responder [Work Request Flushed Error] \
         [Work Request Flushed Error]; events; and [invalid request local work queue error]; \
         states ERR ERR",
    ),
    (
        "immediate-key",
        "requester [remote access error]; responder [local access error] \
         [Work Request Flushed Error]; events; and; states ERR ERR",
    ),
    (
        "immediate-key-srq",
        "requester [remote access error]; responder [local access error]; events; \
         and [last WQE reached]; states ERR ERR",
    ),
    (
        "immediate-long-key",
        "requester [remote access error]; responder [Work Request Flushed Error] \
         [Work Request Flushed Error]; events; \
         and [local access violation work queue error]; states ERR ERR",
    ),
    (
        "invalidate-key",
        "requester [success]; responder [memory management operation error] \
         [Work Request Flushed Error]; events; and; states RTS ERR",
    ),
];

/// Runs all cases.
fn run(place: &Place) {
    let Some(program) = compile(place, SOURCE, &["ibverbs"]) else { return };
    let names = CASES.map(|(name, _)| name).join(" ");
    let text = place.start(&format!("{program} {names}")).succeed();
    let expected: Vec<String> =
        CASES.iter().map(|(name, told)| format!("{name}: {told}")).collect();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    assert_eq!(lines, expected);
    place.assert_gone();
}

#[test]
fn within_a_fabric() {
    run(&Place::new("errors"));
}

/// All messages go by the link's protocol.
#[test]
fn by_the_link() {
    let option = format!("--roce=always,{INTERFACE}");
    let Some(hosts) = Hosts::with("errors-link", 1500, &[&option]) else { return };
    run(&hosts.a.place);
}

const LONG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/errors/long.c");

/// The limit that a device in a fabric of its own announces, and keeps.
fn announced_is_kept(name: &str, device: &str, most: u32, how: &str) {
    let options = vec!["--device".to_string(), device.to_string()];
    let place = Place::with(name, Vec::new(), options);
    let Some(program) = compile(&place, LONG, &["ibverbs"]) else { return };
    let text = place.start(&format!("{program}{how}")).succeed();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(format!("max_msg_sz {most}").as_str()));
    let good = if how.is_empty() { "" } else { "; success" };
    let refused = format!("local length error, local length error{good}");
    let operations = ["send", "send with immediate", "write", "write with immediate", "read"];
    let expected = operations.map(|operation| format!("{operation}: {refused}"));
    assert_eq!(lines.collect::<Vec<_>>(), expected);
    place.assert_gone();
}

/// The statuses are Soft-RoCE's since Linux 6.14.
#[test]
fn messages_of_more_than_2_gib() {
    announced_is_kept("long", "rxe0", 1 << 31, "");
}

#[test]
fn messages_of_1_gib_and_more() {
    announced_is_kept("long-infiniband", "rxe0:infiniband", 1 << 30, " exact");
}
