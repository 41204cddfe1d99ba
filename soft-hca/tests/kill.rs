//! Programs that are killed, and much of everything: the fabric stays usable, and nothing is left.
//!
//! `SOFT_HCA_LONG=1` makes the runs long, and `SOFT_HCA_SEED` another number starts them
//! differently. See `stock.rs` about programs that are not installed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod programs;

use std::thread;
use std::time::{Duration, Instant};

use programs::place::Place;
use programs::program::Program;
use programs::{LIMIT, LOCALHOST, comes_about, descriptors, installed, is_long, tcp};

/// Port of the pairs that nobody kills.
const OTHER_PORT: u16 = 7000;

/// How long a survivor may wait for a peer that never came to it, before it is killed as well.
const LONELY: Duration = Duration::from_millis(500);

/// How `ibv_rc_pingpong` says it.
const RETRY_EXCEEDED: &str = "Failed status transport retry counter exceeded (12)";

/// How perftest says that a peer is not there, or is gone.
const PERFTEST: [&str; 4] = ["Couldn't ", "Unable to ", "Failed to ", "Completion with error"];

/// Numbers for the moments of the kills (an LCG).
struct Random(u64);

impl Random {
    fn new(salt: u64) -> Self {
        let seed = std::env::var("SOFT_HCA_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or(1u64);
        println!("SOFT_HCA_SEED={seed}");
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % limit
    }
}

/// A pair of programs, one of which is to be killed.
struct Pair<'a> {
    /// The server's command line, without its port.
    server: &'a str,
    /// The client's.
    client: &'a str,
    /// Whether the port is one of the connection manager.
    is_by_cm: bool,
    /// What a survivor may say; if there is nothing here, it may keep silent, too.
    last_words: &'a [&'a str],
    /// Whether a survivor may wait for a message from the dead peer for ever: without a work
    /// request in the send queue nothing tells a program that only looks for completions,
    /// whatever the device.
    may_wait: bool,
}

/// What becomes of the one that is not killed.
#[derive(Debug, Default)]
struct Tally {
    ended: u32,
    /// Still waited for a peer, and was killed.
    waited: u32,
}

impl Pair<'_> {
    /// Kills `kills` programs, and after each lets another pair run.
    fn test(&self, name: &str, salt: u64, kills: u32) {
        let place = Place::new(name);
        let mut keeper = place.keep();
        let mut random = Random::new(salt);
        let mut tally = Tally::default();
        for round in 0..kills {
            self.kill_one(&place, &mut random, &mut tally);
            place.assert_no_objects();
            if round % 2 == 0 {
                another_pair(&place);
                place.assert_no_objects();
            }
        }
        println!("{name}: {kills} kills; survivors: {tally:?}");
        assert!(self.may_wait || tally.ended > 0, "{tally:?}");
        keeper.kill();
        place.assert_gone();
    }

    fn kill_one(&self, place: &Place, random: &mut Random, tally: &mut Tally) {
        let port = tcp::free_port();
        let listens = || if self.is_by_cm { place.listens(port) } else { tcp::listens(port) };
        let mut server = place.start(&format!("{} -p {port}", self.server));
        let is_early = random.below(8) == 0;
        if is_early {
            // It may be anywhere between its first instruction and listening.
            thread::sleep(Duration::from_micros(random.below(20_000)));
        } else {
            server.wait_until(listens);
        }
        let mut client = place.start(&format!("{} -p {port}", self.client));
        // Half of the moments are in the beginning, where most happens.
        let scale = if random.below(2) == 0 { 20_000 } else { 300_000 };
        thread::sleep(Duration::from_micros(random.below(scale)));
        let server_dies = random.below(2) == 0;
        let (victim, survivor) =
            if server_dies { (&mut server, &mut client) } else { (&mut client, &mut server) };
        victim.kill();
        self.see_end(survivor, listens, tally);
    }

    /// The survivor ends, unless it never had a peer.
    fn see_end(&self, survivor: &mut Program, listens: impl Fn() -> bool, tally: &mut Tally) {
        let end = Instant::now() + LIMIT;
        let patience = if self.may_wait { 6 * LONELY } else { LIMIT };
        let started = Instant::now();
        let status = loop {
            if let Some(status) = survivor.ends_within(LONELY) {
                break status;
            }
            if listens() || started.elapsed() > patience && self.may_wait {
                survivor.kill();
                tally.waited += 1;
                return;
            }
            let text = survivor.output();
            assert!(Instant::now() < end, "a survivor of `{}` stays:\n{text}", self.server);
        };
        let text = survivor.output();
        assert!(status.code().is_some(), "a survivor crashed: {status}\n{text}");
        let mut words = self.last_words.iter();
        let has_said = self.last_words.is_empty() || words.any(|words| text.contains(words));
        assert!(has_said, "{status}, not the last words of a survivor:\n{text}");
        tally.ended += 1;
    }
}

/// A pair that nobody kills.
fn another_pair(place: &Place) {
    let line = format!("rping -a {LOCALHOST} -p {OTHER_PORT} -C 3 -V -v");
    let mut server = place.start(&format!("{line} -s"));
    server.wait_until(|| place.listens(OTHER_PORT));
    let text = place.start(&format!("{line} -c")).succeed();
    assert!(text.contains("rdma-ping-2: "), "{text}");
    server.succeed();
}

fn kills() -> u32 {
    if is_long() { 100 } else { 8 }
}

#[test]
#[ignore = "half a minute of random kills: run with --ignored"]
fn rping_is_killed() {
    if !installed(&["rping"]) {
        return;
    }
    let pair = Pair {
        server: "rping -s -a 127.0.0.1 -S 10000 -V",
        client: "rping -c -a 127.0.0.1 -S 10000 -V",
        is_by_cm: true,
        last_words: &[
            "DISCONNECT EVENT",
            "RDMA_CM_EVENT_REJECTED",
            "RDMA_CM_EVENT_UNREACHABLE",
            "RDMA_CM_EVENT_CONNECT_ERROR",
            "connect error",
            "accept error",
            "completion failed",
            // The request is void by the time it is answered.
            "setup_qp failed",
        ],
        may_wait: false,
    };
    pair.test("kill-rping", 1, kills());
}

#[test]
#[ignore = "half a minute of random kills: run with --ignored"]
fn ping_pong_is_killed_in_an_event() {
    if !installed(&["rping", "ibv_rc_pingpong"]) {
        return;
    }
    let pair = Pair {
        server: "ibv_rc_pingpong -e -g 1 -n 100000000",
        client: "ibv_rc_pingpong -e -g 1 -n 100000000 127.0.0.1",
        is_by_cm: false,
        last_words: &[RETRY_EXCEEDED, "Couldn't ", "client read", "client write", "server read"],
        may_wait: true,
    };
    pair.test("kill-events", 3, kills());
}

#[test]
#[ignore = "half a minute of random kills: run with --ignored"]
fn bandwidth_test_is_killed() {
    if !installed(&["rping", "ib_write_bw"]) {
        return;
    }
    let pair = Pair {
        server: "ib_write_bw -x 1 -q 2 -F -D 100",
        client: "ib_write_bw -x 1 -q 2 -F -D 100 127.0.0.1",
        is_by_cm: false,
        last_words: &PERFTEST,
        may_wait: false,
    };
    pair.test("kill-bandwidth", 4, kills());
}

/// Both ends send, and both wait for events.
#[test]
#[ignore = "half a minute of random kills: run with --ignored"]
fn two_senders_are_killed() {
    if !installed(&["rping", "ib_send_bw"]) {
        return;
    }
    let pair = Pair {
        server: "ib_send_bw -x 1 -b -e -s 3000 -F -n 100000000",
        client: "ib_send_bw -x 1 -b -e -s 3000 -F -n 100000000 127.0.0.1",
        is_by_cm: false,
        last_words: &PERFTEST,
        may_wait: false,
    };
    pair.test("kill-senders", 2, kills());
}

#[test]
#[ignore = "half a minute of random kills: run with --ignored"]
fn a_stream_is_killed() {
    if !installed(&["rping", "rstream"]) {
        return;
    }
    let pair = Pair {
        server: "rstream -S 30000 -C 100000000 -T a",
        client: "rstream -S 30000 -C 100000000 -T a -s 127.0.0.1",
        is_by_cm: true,
        last_words: &[],
        may_wait: true,
    };
    pair.test("kill-stream", 5, kills());
}

/// Connections come and go, in processes that come and go.
#[test]
#[ignore = "half a minute of random kills: run with --ignored"]
fn connections_leak_nothing() {
    if !installed(&["cmtime", "rping"]) {
        return;
    }
    const EACH: u32 = 20;
    const PORT: u16 = 7471;
    let rounds = if is_long() { 10_000 / EACH } else { 200 / EACH };
    let place = Place::new("cycles");
    let mut keeper = place.keep();
    let mut server = place.start(&format!("cmtime -p {PORT} -b {LOCALHOST}"));
    server.wait_until(|| place.listens(PORT));
    let cycle = || {
        let line = format!("cmtime -p {PORT} -s {LOCALHOST} -c {EACH}");
        place.start(&line).succeed();
        // The server's share is over when only its listening id is left.
        let is_over = comes_about(LIMIT, || place.objects().len() == 1);
        assert!(is_over, "left behind:\n{}", place.listing());
    };
    cycle();
    let [daemon] = place.daemons()[..] else { panic!("{:?}", place.daemons()) };
    let count = || [descriptors(daemon), descriptors(server.pid())];
    let before = count();
    (0..rounds).for_each(|_| cycle());
    // The daemon may be about to close what the last client has left.
    let is_same = comes_about(Duration::from_secs(10), || {
        count().iter().zip(before).all(|(after, before)| *after <= before)
    });
    assert!(is_same, "descriptors of daemon and server: {:?}, before {before:?}", count());
    server.kill();
    place.assert_no_objects();
    keeper.kill();
    place.assert_gone();
}

/// Many queue pairs in many processes, all at the same time.
#[test]
#[ignore = "half a minute of random kills: run with --ignored"]
fn many_queue_pairs() {
    if !installed(&["ib_write_bw"]) {
        return;
    }
    let (pairs, queue_pairs) = if is_long() { (16, 32) } else { (4, 25) };
    let place = Place::new("many");
    let line = |port| format!("ib_write_bw -x 1 -F -s 512 -q {queue_pairs} -D 1000 -p {port}");
    let ports: Vec<u16> = (0..pairs).map(|_| tcp::free_port()).collect();
    let start = |port: &u16| place.start(&line(*port));
    let mut servers: Vec<Program> = ports.iter().map(start).collect();
    for (server, port) in servers.iter_mut().zip(&ports) {
        server.wait_until(|| tcp::listens(*port));
    }
    let start = |port: &u16| place.start(&format!("{} {LOCALHOST}", line(*port)));
    let mut clients: Vec<Program> = ports.iter().map(start).collect();
    let ready = || {
        let objects = place.objects();
        // A server that only is written to has no need to send.
        let is_connected =
            |line: &&String| line.contains(" state RTS ") || line.contains(" state RTR ");
        objects.iter().filter(is_connected).count()
    };
    let all = pairs * queue_pairs * 2;
    assert!(comes_about(LIMIT, || ready() == all), "{} of {all}", ready());
    for program in servers.iter_mut().chain(&mut clients) {
        assert!(!program.has_ended(), "{}", program.output());
    }
    clients.iter_mut().for_each(Program::kill);
    // Each has lost its peer.
    servers.iter_mut().for_each(|server| assert!(!server.wait().success()));
    place.assert_gone();
}
