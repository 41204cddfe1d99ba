//! Death between two hosts: programs and whole fabrics that are killed, and a host that is cut off.
//! The survivor is told in the time that its queue pairs' attributes say, nothing remains, and the
//! next pair is connected at once, also to a fabric that was started anew at the same address.
//!
//! `SOFT_HCA_LONG=1` kills 200 times, and `SOFT_HCA_SEED` another number does it differently. See
//! `hosts.rs` about systems without namespaces.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use programs::hosts::{Host, Hosts, assert_gone, by_cm, ping_pong};
use programs::program::Program;
use programs::random::Random;
use programs::{LIMIT, comes_about, descriptors, installed, is_long, tcp, the_processors};

/// All programs that play a part.
const PROGRAMS: [&str; 5] = ["ib_write_bw", "ib_send_bw", "ib_read_bw", "ibv_rc_pingpong", "rping"];

/// A port of the connection manager.
const PORT: u16 = 7471;

/// A queue pair of these programs tells that its peer has gone after eight timeouts of 4.096 us *
/// 2^14 to four times that (IBTA 9.7.6.1.3), so in two seconds. Who is silent so much longer has no
/// request under way.
const SILENCE: Duration = Duration::from_secs(8);

/// How perftest and the ping-pongs say that a request has failed.
const FAILED: &str = "Failed status";

/// How programs say that there never was a peer.
const NO_PEER: [&str; 3] = ["Couldn't ", "Unable to ", "Failed to "];

/// A pair that does not end by itself.
#[derive(Clone, Copy, Debug)]
enum Pair {
    Writers,
    Senders,
    Readers,
    PingPong,
    Rping,
}

impl Pair {
    const ALL: [Self; 5] =
        [Self::Writers, Self::Rping, Self::Senders, Self::PingPong, Self::Readers];

    /// The server's command line, and the client's.
    fn lines(self, address: &str, port: u16) -> [String; 2] {
        // Both ends send, so that both find out.
        let perftest = |program: &str| format!("{program} -d rxe0 -x 1 -F -b -s 3000 -D 1000");
        let line = match self {
            Self::Writers => format!("{} -q 2", perftest("ib_write_bw")),
            Self::Senders => perftest("ib_send_bw"),
            Self::Readers => perftest("ib_read_bw"),
            Self::PingPong => "ibv_rc_pingpong -d rxe0 -g 1 -n 100000000".to_string(),
            Self::Rping => {
                return ["-s", "-c"]
                    .map(|side| format!("rping {side} -a {address} -p {PORT} -S 10000 -V"));
            }
        };
        [format!("{line} -p {port}"), format!("{line} -p {port} {address}")]
    }

    /// Whether the server still waits for a client.
    fn listens(self, hosts: &Hosts, port: u16) -> bool {
        match self {
            Self::Rping => hosts.a.place.listens(PORT) && !has_connection(&hosts.a),
            _ => hosts.a.listens(port),
        }
    }

    /// Starts both. They need not have begun when this returns.
    fn start(self, hosts: &Hosts, port: u16) -> [Program; 2] {
        let [server, client] = self.lines(hosts.a.address, port);
        let mut server = hosts.a.place.start(&server);
        server.wait_until(|| self.listens(hosts, port));
        [server, hosts.b.place.start(&client)]
    }

    /// Whether a living program of this kind finds out for sure that the other has gone.
    fn is_told(self) -> bool {
        // A ping-pong may wait for an answer with nothing of its own under way.
        !matches!(self, Self::PingPong)
    }
}

/// Whether a queue pair is connected.
fn has_connection(host: &Host) -> bool {
    host.place.objects().iter().any(|line| line.starts_with("qp ") && line.contains(" state RTS "))
}

/// The process that is killed.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Server,
    Client,
    /// The client's fabric and itself, as when a host goes down.
    Host,
}

/// How the survivors ended.
#[derive(Debug, Default)]
struct Ends {
    /// By their requests or connections, and the longest time that this took.
    told: u32,
    longest: Duration,
    /// Without ever having had a peer, or with nothing under way.
    lonely: u32,
}

impl Ends {
    /// Waits for the end of who is left, of a pair that was connected or not.
    fn wait_for(&mut self, pair: Pair, was_connected: bool, survivor: &mut Program) {
        let since = Instant::now();
        let is_told_for_sure = was_connected && pair.is_told();
        if !is_told_for_sure && survivor.ends_within(SILENCE).is_none() {
            survivor.kill();
        }
        let status = survivor.wait();
        let text = survivor.output();
        if text.contains(FAILED) || matches!(pair, Pair::Rping) && text.contains("DISCONNECT") {
            self.told += 1;
            self.longest = self.longest.max(since.elapsed());
            return;
        }
        self.lonely += 1;
        let has_said = NO_PEER.iter().any(|words| text.contains(words));
        let is_right = status.code().is_none() || has_said || matches!(pair, Pair::Rping);
        assert!(is_right, "{pair:?}, {status}, not the last words of a survivor:\n{text}");
    }
}

/// A host that is kept alive, and the descriptors of its daemon.
struct Survivor {
    keeper: Program,
    daemon: u32,
    descriptors: usize,
}

impl Survivor {
    fn new(host: &Host) -> Self {
        let keeper = host.place.keep();
        let [daemon] = host.place.daemons()[..] else { panic!("no daemon") };
        Self { keeper, daemon, descriptors: descriptors(daemon) }
    }

    /// The fabric and all its programs are killed, and it comes again with the same address. A program that neither
    /// polls nor waits for events would keep the port of the fabric that is gone: see `hosts_own_port.rs`.
    fn start_anew(&mut self, host: &Host, program: &mut Program) {
        kill_daemon(host);
        self.keeper.kill();
        program.kill();
        *self = Self::new(host);
    }

    /// Nothing has grown.
    fn assert_as_before(&self, host: &Host) {
        host.place.assert_no_objects();
        let is_so = || descriptors(self.daemon) <= self.descriptors;
        assert!(comes_about(LIMIT, is_so), "descriptors of the daemon: {}", self.descriptors);
    }
}

fn kill_daemon(host: &Host) {
    let [daemon] = host.place.daemons()[..] else { panic!("no daemon") };
    let status = Command::new("kill").args(["-KILL", &daemon.to_string()]).status();
    assert!(status.unwrap().success());
}

/// The next pair, with or without the connection manager.
fn another_pair(hosts: &Hosts, pair: Pair) -> Duration {
    let since = Instant::now();
    if matches!(pair, Pair::Rping) {
        let line = format!("-a {} -p {PORT} -C 3 -v -V", hosts.a.address);
        by_cm(hosts, PORT, &format!("rping -s {line}"), &format!("rping -c {line}"));
    } else {
        ping_pong(hosts, "ibv_rc_pingpong", "-e");
    }
    since.elapsed()
}

#[test]
fn either_side_is_killed() {
    if !installed(&PROGRAMS) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-death") else { return };
    let _alone = the_processors();
    let mut random = Random::new(8);
    let mut kept = [Survivor::new(&hosts.a), Survivor::new(&hosts.b)];
    let (mut ends, mut longest_next) = (Ends::default(), Duration::ZERO);
    let rounds = if is_long() { 200 } else { 6 };
    for round in 0..rounds {
        let pair = Pair::ALL[round % Pair::ALL.len()];
        let port = tcp::free_port();
        let [mut server, mut client] = pair.start(&hosts, port);
        // Most are killed at work, some before they have begun.
        let is_early = random.below(4) == 0;
        if !is_early {
            for (program, host) in [(&mut server, &hosts.a), (&mut client, &hosts.b)] {
                program.wait_until(|| has_connection(host));
            }
        }
        thread::sleep(Duration::from_micros(random.below(300_000)));
        // Without its daemon nobody says goodbye for rping, and its queue pairs are patient.
        let kinds = if matches!(pair, Pair::Rping) { 2 } else { 3 };
        let victim = [Victim::Server, Victim::Client, Victim::Host][random.below(kinds) as usize];
        let survivor = match victim {
            Victim::Server => {
                server.kill();
                &mut client
            }
            Victim::Client => {
                client.kill();
                &mut server
            }
            Victim::Host => {
                kept[1].start_anew(&hosts.b, &mut client);
                &mut server
            }
        };
        ends.wait_for(pair, !is_early, survivor);
        kept.iter().zip([&hosts.a, &hosts.b]).for_each(|(kept, host)| kept.assert_as_before(host));
        let next = another_pair(&hosts, pair);
        longest_next = longest_next.max(next);
        println!("{round}: {pair:?}, {victim:?}, the next pair was done in {next:.1?}");
    }
    println!("{rounds} kills: {ends:?}; the next pair was done within {longest_next:?}");
    assert!(ends.told as usize > rounds / 3);
    for (kept, host) in kept.into_iter().zip([&hosts.a, &hosts.b]) {
        host.place.end(kept.keeper);
    }
    assert_gone(&hosts);
}

/// Both ends are told, and are as good as new when the link is back.
#[test]
fn a_host_is_cut_off() {
    if !installed(&PROGRAMS) {
        return;
    }
    let Some(hosts) = Hosts::new("hosts-cut") else { return };
    let _alone = the_processors();
    let kept = [Survivor::new(&hosts.a), Survivor::new(&hosts.b)];
    for _ in 0..if is_long() { 10 } else { 1 } {
        let [mut server, mut client] = Pair::Writers.start(&hosts, tcp::free_port());
        for (program, host) in [(&mut server, &hosts.a), (&mut client, &hosts.b)] {
            program.wait_until(|| has_connection(host));
        }
        hosts.b.set_link("down");
        let mut ends = Ends::default();
        for program in [&mut server, &mut client] {
            ends.wait_for(Pair::Writers, true, program);
        }
        assert_eq!(ends.told, 2, "{ends:?}");
        hosts.b.set_link("up");
        kept.iter().zip([&hosts.a, &hosts.b]).for_each(|(kept, host)| kept.assert_as_before(host));
        println!("{ends:?}; the next pair was done in {:?}", another_pair(&hosts, Pair::Rping));
    }
    for (kept, host) in kept.into_iter().zip([&hosts.a, &hosts.b]) {
        host.place.end(kept.keeper);
    }
    assert_gone(&hosts);
}
