//! Programs of others between two hosts, which choose device, GID and address by themselves; see
//! `hosts.rs`. The package is libfabric-bin.

use programs::assert_has;
use programs::hosts::{Host, Hosts, assert_gone};
use programs::program::Program;
use programs::{installed, tcp, the_processors};

/// libfabric's ping-pong, which compares what it gets (`-c`), with nothing said of addresses but the
/// server's to the client. Its sides talk by TCP, too.
fn fabric_ping_pong(name: &str, options: &str, sizes: &[&str]) {
    if !installed(&["fi_pingpong"]) {
        return;
    }
    let Some(hosts) = Hosts::new(name) else { return };
    let _alone = the_processors();
    let port = tcp::free_port();
    let line = format!("fi_pingpong {options} -I 20 -c");
    // For 256 peers, as it is unless it is told, rxm wants a longer completion queue than there is.
    let start = |host: &Host, line: &str| -> Program {
        host.place.start_in(line, |command| command.env("FI_UNIVERSE_SIZE", "16"))
    };
    let mut server = start(&hosts.a, &format!("{line} -B {port}"));
    server.wait_until(|| hosts.a.listens(port));
    let mut client = start(&hosts.b, &format!("{line} -P {port} {}", hosts.a.address));
    client.wait();
    server.wait();
    for text in [client.output(), server.output()] {
        let sizes_seen = text.lines().filter(|line| line.contains(" =20 "));
        let sizes_seen = sizes_seen.filter_map(|line| line.split_whitespace().next());
        assert_eq!(sizes_seen.collect::<Vec<_>>(), sizes, "{text}");
    }
    assert_gone(&hosts);
}

const MESSAGES: [&str; 6] = ["64", "256", "1k", "4k", "64k", "1m"];

#[test]
fn libfabric_messages() {
    fabric_ping_pong("hosts-fi-msg", "-p verbs -e msg", &MESSAGES);
}

/// The largest is what fits into a datagram.
#[test]
fn libfabric_datagrams() {
    fabric_ping_pong("hosts-fi-dgram", "-p verbs -e dgram", &["64", "256", "1k"]);
}

/// Messages without connections, which it makes of those that have one.
#[test]
fn libfabric_messages_without_connections() {
    fabric_ping_pong("hosts-fi-rxm", "-p verbs;ofi_rxm -e rdm", &MESSAGES);
}

/// A program that looks for addresses by itself finds those that the other host reaches, and no others.
#[test]
fn libfabric_lists_the_link() {
    if !installed(&["fi_info"]) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-fi-info") else { return };
    let text = hosts.a.place.start("fi_info -p verbs -t FI_EP_MSG -v").succeed();
    let addresses = text.lines().filter_map(|line| line.trim().strip_prefix("src_addr: "));
    let addresses: Vec<&str> = addresses.collect();
    assert_has(&addresses.join("\n"), &[&format!("fi_sockaddr_in://{}:0", hosts.a.address)]);
    let is_far = |text: &&str| !text.contains("://127.") && !text.contains("[::1]");
    assert!(addresses.iter().all(is_far), "{addresses:?}");
    assert_gone(&hosts);
}
