//! Multicast groups with members on two hosts; see `hosts.rs`.

use std::fs;

use programs::hosts::{Host, Hosts, INTERFACE};
use programs::{LIMIT, assert_has, comes_about, headers, installed, the_processors};

/// Groups of either family.
const GROUPS: [&str; 2] = ["239.1.2.3", "ff0e::4791:1"];

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/multicast/group.c");

fn assert_gone(hosts: &Hosts) {
    hosts.a.place.assert_gone();
    hosts.b.place.assert_gone();
}

/// A host's own address in a group's family.
fn own(host: &Host, group: &str) -> &'static str {
    if group.contains(':') { host.address6 } else { host.address }
}

/// Both ways and by either family of addresses. Each program rests for three seconds first.
#[test]
fn mckey() {
    if !installed(&["mckey"]) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-mckey") else { return };
    let _alone = the_processors();
    let ways = [("239.1.2.3", true), ("239.1.2.4", false), ("ff0e::4791:1", false)];
    let pairs = ways.map(|(group, is_from_a)| {
        let (from, to) = if is_from_a { (&hosts.a, &hosts.b) } else { (&hosts.b, &hosts.a) };
        let line = |host| format!("mckey -m {group} -b {} -C 10 -S 1000", own(host, group));
        let mut receiver = to.place.start(&line(to));
        receiver.wait_until(|| to.has_joined(group));
        [receiver, from.place.start(&format!("{} -s", line(from)))]
    });
    for mut program in pairs.into_iter().flatten() {
        let text = program.succeed();
        assert_has(&text, &["data transfers complete", "test complete\nreturn status 0"]);
    }
    assert_gone(&hosts);
}

/// Compiles the program into a host's place.
fn compile(host: &Host) -> String {
    programs::compile(&host.place, SOURCE, &["ibverbs"]).unwrap()
}

/// Every member gets every datagram once, with the header that it had on its way, and a group is
/// heard as long as it has members.
#[test]
fn attached_without_the_connection_manager() {
    if !installed(&["cc"]) || !headers(&["infiniband/verbs.h"].into()) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-group") else { return };
    datagrams_to_groups(&hosts, &hosts.b);
}

/// The same with all members in one fabric, which hears itself by the link.
#[test]
fn attached_in_a_fabric_that_always_takes_the_link() {
    if !installed(&["cc"]) || !headers(&["infiniband/verbs.h"].into()) {
        return;
    }
    let options = [format!("--roce=always,{INTERFACE}")];
    let Some(hosts) = Hosts::with("hosts-always", 1500, &[&options[0]]) else { return };
    datagrams_to_groups(&hosts, &hosts.a);
}

/// From one of the hosts to members on it and on host A.
fn datagrams_to_groups(hosts: &Hosts, sender: &Host) {
    let _alone = the_processors();
    let program = compile(&hosts.a);
    for group in GROUPS {
        let line = format!("{program} listen {group} {}", own(&hosts.a, group));
        let mut listener = hosts.a.place.start(&line);
        let output = listener.output_file();
        listener.wait_until(|| fs::read_to_string(&output).unwrap().contains("attached\n"));
        assert!(hosts.a.has_joined(group));
        let line = format!("{program} send {group} {} 104 7", own(sender, group));
        let sent = sender.place.start(&line).succeed();
        assert_eq!(sent, "class 104, hop limit 7\nanswered\n");
        let has_left = || !hosts.a.has_joined(group) && !hosts.b.has_joined(group);
        assert!(comes_about(LIMIT, has_left), "{}", listener.output());
        listener.wait_until(|| fs::read_to_string(&output).unwrap().contains("detached\n"));
        let heard = listener.output();
        let header = "class 104, hop limit 7\n";
        assert_eq!(heard, format!("attached\n{header}{header}detached\n"));
        // It has come by the link, from whichever sender.
        let listing = hosts.a.place.listing();
        assert!(listing.contains("roce ") && !listing.contains(" 0 received"), "{listing}");
        listener.kill();
    }
    assert_gone(hosts);
}

/// A program that is killed is no member any more.
#[test]
fn a_member_is_killed() {
    if !installed(&["mckey"]) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-mckey-kill") else { return };
    let keeper = hosts.a.place.keep();
    for group in GROUPS {
        let line = format!("mckey -m {group} -b {}", own(&hosts.a, group));
        let [mut first, mut second] = [(); 2].map(|()| hosts.a.place.start(&line));
        for member in [&mut first, &mut second] {
            member.wait_until(|| hosts.a.has_joined(group));
        }
        first.kill();
        second.kill();
        assert!(comes_about(LIMIT, || !hosts.a.has_joined(group)), "{group} is still heard");
    }
    hosts.a.place.end(keeper);
    assert_gone(&hosts);
}
