//! Regions on demand (`IBV_ACCESS_ON_DEMAND`), whose memory comes and goes: completions of requests.
//!
//! rdma-core's own tests of them run with those of `conformance/pyverbs`.

use programs::compile;
use programs::place::Place;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/on_demand/on_demand.c");

/// Runs a case, with the hook and without; returns both sides' lines, in alphabetical order.
fn run(case: &str, expected: &[&str]) {
    for hook in ["0", "1"] {
        let name = case.replace(' ', "-");
        let place = Place::new(&format!("on-demand-{name}-{hook}"));
        let Some(program) = compile(&place, SOURCE, &["ibverbs"]) else { return };
        let line = format!("{program} {case}");
        let text = place.start_in(&line, |command| command.env("SOFT_HCA_HOOK", hook)).succeed();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, expected, "{case}, SOFT_HCA_HOOK={hook}");
        place.assert_gone();
    }
}

#[test]
fn memory_need_not_be_there_when_it_is_registered() {
    run(
        "registers",
        &[
            "all memory: Invalid argument",
            "in general 0x1, rc 0xff, uc 0, ud 0x23",
            "pinned: Bad address",
            "writable by a peer alone: Invalid argument",
        ],
    );
}

#[test]
fn advice_is_followed() {
    run(
        "advises",
        &[
            "beyond the region: Bad address",
            "gone, and nobody waits: Success",
            "gone, without faults: Success",
            "gone: Bad address",
            "its page has come: yes",
            "no advice: Operation not supported",
            "no flag: Invalid argument",
            "no key: Invalid argument",
            "there, to be written: Success",
            "there: Success",
        ],
    );
}

#[test]
fn memory_that_has_come_is_used() {
    run("used", &["added: yes", "read: yes", "received: success", "sent: yes", "written: yes"]);
}

/// The lengths are of messages that are copied at once, and that would be staged for the receiver's poll.
#[test]
fn memory_that_has_gone_is_an_error() {
    for bytes in [8, 4096] {
        run(&format!("gather {bytes}"), &["local protection error"]);
        run(&format!("write {bytes}"), &["remote access error"]);
        run(&format!("read {bytes}"), &["remote access error"]);
        let received = "received: local protection error";
        run(&format!("receive {bytes}"), &[received, "remote operation error"]);
    }
}
