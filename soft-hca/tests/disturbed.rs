//! Pairs on two hosts whose packets get lost, come twice, in another order, late or damaged: what is
//! reliable has to come out right all the same. See `hosts.rs` about the two hosts.
//!
//! `SOFT_HCA_LONG=1` has more get lost, and moves a gibibyte.

use std::fs;
use std::process::Command;
use std::time::Instant;

use programs::hosts::Hosts;
use programs::{
    LIMIT, assert_has, capture, comes_about, installed, is_long, perftest, skipped, tcp,
    the_processors, traffic,
};

/// A packet passes both ends' faults: 1 % of all get lost.
const LOSS: &str = "drop:0.5% seed=1";
/// 5 % of all.
const HEAVY_LOSS: &str = "drop:2.5% seed=2";
/// Each of these happens to 2 % of all.
const DISORDER: &str = "reorder:1% reorder:by=5,1% duplicate:1% delay:300us,1% corrupt:0.2% seed=3";

/// A port of the connection manager.
const PORT: u16 = 7471;

/// Two hosts with faults.
fn hosts(name: &str, faults: &str) -> Option<Hosts> {
    Hosts::with(name, 1500, &["--roce", &format!("--fault={faults}")])
}

/// Runs a server on host A and a client on host B; both have to write what is expected.
fn pair(hosts: &Hosts, line: &str, client: &str, port: u16, expected: &[&str]) {
    let since = Instant::now();
    let mut server = hosts.a.place.start(line);
    server.wait_until(|| hosts.a.place.listens(port) || hosts.a.listens(port));
    let client = hosts.b.place.start(client).succeed();
    assert_has(&client, expected);
    assert_has(&server.succeed(), expected);
    println!("{:?}: {line}", since.elapsed());
}

/// `ibv_rc_pingpong` with a check of the data. Who has all messages, and all completions, destroys its queue
/// pair at once: if the acknowledgement of the other's last message has got lost, nobody answers that
/// any more, on every device.
fn ping_pong(hosts: &Hosts, options: &str, expected: &str) {
    const LAST_UNANSWERED: &str = "Failed status transport retry counter exceeded (12) for wr_id 2";
    let port = tcp::free_port();
    let line = format!("ibv_rc_pingpong -d rxe0 -g 1 -c -p {port} {options}");
    let mut server = hosts.a.place.start(&line);
    server.wait_until(|| hosts.a.listens(port));
    let mut client = hosts.b.place.start(&format!("{line} {}", hosts.a.address));
    let texts = [&mut client, &mut server].map(|side| {
        assert!(side.ends_within(LIMIT).is_some(), "{line} does not end:\n{}", side.output());
        side.output()
    });
    let (unanswered, done): (Vec<_>, Vec<_>) =
        texts.iter().partition(|text| text.contains(LAST_UNANSWERED));
    assert!(unanswered.len() <= 1, "both wait for each other:\n{}", texts.join("\n"));
    for text in unanswered {
        println!("the last acknowledgement was lost: {line}\n{text}");
    }
    for text in done {
        assert_has(text, &[expected, "Mbit/sec"]);
    }
}

/// Programs that check their data, or count on its order.
fn programs_hold(hosts: &Hosts) {
    let a = hosts.a.address;
    if installed(&["ibv_rc_pingpong"]) {
        for options in ["-n 50", "-n 20 -s 100000 -e"] {
            ping_pong(hosts, options, " iters in ");
        }
    }
    if installed(&["rping", "ucmatose"]) {
        let line = format!("-a {a} -p {PORT} -C 5 -S 10000 -V -v");
        let (server, client) = (format!("rping -s {line}"), format!("rping -c {line}"));
        pair(hosts, &server, &client, PORT, &["ping data: rdma-ping-4: "]);
        let line = format!("ucmatose -p {PORT} -c 3 -C 10 -S 1000");
        let expected = ["data transfers complete", "return status 0"];
        pair(hosts, &line, &format!("{line} -s {a}"), PORT, &expected);
    }
    if installed(&["rstream"]) {
        let line = format!("rstream -p {PORT} -T v -S 1000 -C 1000 -I 2");
        pair(hosts, &line, &format!("{line} -s {a}"), PORT, &["custom"]);
    }
}

/// perftest's programs.
fn streams_hold(hosts: &Hosts, with_cm: bool) {
    let lists = [
        ("ib_send_bw", "-s 5000 -x 1"),
        ("ib_write_bw", "-s 5000 -x 1 -q 2"),
        ("ib_read_bw", "-s 5000 -x 1"),
        ("ib_atomic_bw", "-x 1"),
        // Its queue pairs wait two seconds for an acknowledgement, as the kernel's connection
        // manager has it, and nobody else says that a message's last packet was lost: what is sent
        // again before that keeps it within the limit.
        ("ib_send_lat", "-s 5000 -R -n 1000"),
    ];
    for (program, options) in lists {
        if installed(&[program]) && (with_cm || !options.contains("-R")) {
            let port = tcp::free_port();
            let line = perftest::line(program, port, options);
            pair(hosts, &line, &format!("{line} {}", hosts.a.address), port, &["#bytes"]);
        }
    }
}

/// Every byte of messages of all kinds, and every sum of atomic operations.
fn traffic_holds(hosts: &Hosts, options: &str) {
    let port = tcp::free_port();
    let line = format!("{} -p {port}", traffic::program());
    let mut server = hosts.a.place.start(&line);
    server.wait_until(|| hosts.a.listens(port));
    let client = format!("{line} --reliable {options} {}", hosts.a.address);
    let client = hosts.b.place.start(&client);
    let text = traffic::Traffic { server, client }.succeed();
    assert_has(text.lines().last().unwrap_or_default(), &["every byte checked"]);
    println!("{}", text.lines().last().unwrap_or_default());
}

/// Both hosts under faults, each of which has to have happened.
fn hold(name: &str, faults: &str, bytes: &str, run: impl FnOnce(&Hosts)) {
    let Some(hosts) = hosts(name, faults) else { return };
    let _alone = the_processors();
    let keepers = [&hosts.a, &hosts.b].map(|host| (host, host.place.keep()));
    run(&hosts);
    traffic_holds(&hosts, bytes);
    for (host, keeper) in keepers {
        let listing = host.place.listing();
        let line = listing.lines().find(|line| line.trim().starts_with("faults seed="));
        println!("{}", line.unwrap_or_default());
        assert!(line.is_some_and(|line| !line.contains(" 0 times")), "{listing}");
        host.place.assert_no_objects();
        host.place.end(keeper);
    }
}

#[test]
fn some_packets_get_lost() {
    let bytes = if is_long() { "--bytes 256MiB" } else { "--bytes 4MiB" };
    hold("disturbed-loss", LOSS, bytes, |hosts| {
        programs_hold(hosts);
        streams_hold(hosts, is_long());
    });
}

#[test]
fn many_packets_get_lost() {
    let bytes = if is_long() { "--bytes 64MiB" } else { "--bytes 1MiB --max-message 64KiB" };
    hold("disturbed-heavy", HEAVY_LOSS, bytes, |hosts| {
        if is_long() {
            programs_hold(hosts);
            streams_hold(hosts, true);
        }
    });
}

#[test]
fn packets_come_in_disorder() {
    let bytes = if is_long() { "--bytes 256MiB" } else { "--bytes 4MiB" };
    hold("disturbed-order", DISORDER, bytes, |hosts| {
        programs_hold(hosts);
        if is_long() {
            streams_hold(hosts, true);
        }
    });
}

/// The first message of a connection manager gets lost, and all others come twice: services are found
/// and connections come about all the same. Datagrams that are lost do not come again, so here none
/// are. Nor is an answer about a service lost or its request sent twice: what comes after the answer is
/// a new request, also for the kernel, and `udaddy` takes no more than it was told to expect.
#[test]
fn messages_of_the_connection_manager_get_lost() {
    if !installed(&["udaddy", "ucmatose"]) {
        return;
    }
    let Some(hosts) = Hosts::new("disturbed-cm") else { return };
    // Programs that mostly wait for lost messages need no processor.
    const LOSS: &str = "drop:nth=1,dir=send,qp=1 duplicate:qp=1";
    const ANSWERS: &str = "duplicate:dir=send,qp=1";
    const REQUEST_LOSS: &str = "drop:nth=1,dir=send,qp=1 duplicate:dir=receive,qp=1";
    for (program, port, faults) in
        [("udaddy", 7174, [ANSWERS, REQUEST_LOSS]), ("ucmatose", PORT, [LOSS, LOSS])]
    {
        let both = [&hosts.a, &hosts.b].into_iter().zip(faults);
        let keepers: Vec<_> = both
            .map(|(host, faults)| {
                (host, faults, host.place.keep_in(|command| command.env("SOFT_HCA_FAULT", faults)))
            })
            .collect();
        let line = format!("{program} -c 2 -C 10 -S 500");
        let expected = ["data transfers complete", "return status 0"];
        pair(&hosts, &line, &format!("{line} -s {}", hosts.a.address), port, &expected);
        for (host, faults, keeper) in keepers {
            let listing = host.place.listing();
            let has_lost = listing.contains("drop:nth=1,dir=send,qp=1 1 times");
            assert_eq!(has_lost, faults.contains("drop"), "{listing}");
            host.place.end(keeper);
        }
    }
}

/// Much data over many queue pairs.
#[test]
fn a_gibibyte_comes_right() {
    if !is_long() {
        skipped("a long run, of SOFT_HCA_LONG=1");
        return;
    }
    let Some(hosts) = hosts("disturbed-gib", LOSS) else { return };
    let _alone = the_processors();
    traffic_holds(&hosts, "--bytes 1GiB --threads 4 --queue-pairs 16");
    hosts.a.place.assert_gone();
    hosts.b.place.assert_gone();
}

/// A file of `--pcap` has what was on the wire, whole and right, after a daemon that was killed
/// too.
#[test]
fn recordings_are_right() {
    if !installed(&["tshark", "ibv_rc_pingpong"]) {
        return;
    }
    // The file is in the folder of each host, where `soft-hca run` is started.
    let options = ["--roce", "--pcap=link.pcapng", "--fault=drop:1% seed=4"];
    let Some(hosts) = Hosts::with("disturbed-pcap", 1500, &options) else { return };
    let _alone = the_processors();
    let keepers = [&hosts.a, &hosts.b].map(|host| host.place.keep());
    ping_pong(&hosts, "-n 200", "200 iters in ");
    let sent = hosts.a.place.listing();
    for pid in hosts.a.place.daemons().into_iter().chain(hosts.b.place.daemons()) {
        let killed = Command::new("kill").args(["-9", &pid.to_string()]).status();
        assert!(killed.unwrap().success());
    }
    let mut counts = Vec::new();
    for host in [&hosts.a, &hosts.b] {
        assert!(comes_about(LIMIT, || host.place.daemons().is_empty()));
        let file = host.place.file("link.pcapng");
        let packets = capture::packets(&fs::read(&file).unwrap()).unwrap();
        let wrong = packets.iter().filter(|packet| !packet.is_right()).count();
        assert!(packets.len() > 1_600 && wrong == 0, "{wrong} of {} are wrong", packets.len());
        counts.push(packets.len());
        let errors = "_ws.malformed || _ws.expert.severity == error || !infiniband";
        let output =
            Command::new("tshark").arg("-r").arg(&file).args(["-Y", errors]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let found = String::from_utf8(output.stdout).unwrap();
        assert!(found.is_empty(), "{}", found.lines().take(20).collect::<Vec<_>>().join("\n"));
    }
    // Both have recorded the same: the wire itself loses nothing.
    assert_eq!(counts[0], counts[1], "{sent}");
    drop(keepers);
}
