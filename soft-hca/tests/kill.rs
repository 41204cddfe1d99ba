//! Programs that are killed at any moment: their peers notice, the fabric stays usable, and nothing
//! is left.
//!
//! `SOFT_HCA_LONG=1` makes it more than 500 kills, and `SOFT_HCA_SEED` another number starts them
//! differently. See `stock.rs` about programs that are not installed.

use std::thread;
use std::time::{Duration, Instant};

use programs::place::Place;
use programs::program::Program;
use programs::random::Random;
use programs::traffic::{self, ENDLESS, PEER_GONE, another_pair};
use programs::{LOCALHOST, installed, is_long, rping, tcp};

/// How long a survivor may wait for a peer that never came to it, before it is killed as well.
const LONELY: Duration = Duration::from_millis(500);

/// How long a survivor may take to end: longer than perftest waits for a first message.
const TIRED: Duration = Duration::from_secs(180);

/// How `ibv_rc_pingpong` says it.
const RETRY_EXCEEDED: &str = "Failed status transport retry counter exceeded (12)";

/// How perftest says that a peer is not there, or is gone.
const PERFTEST: [&str; 4] = ["Couldn't ", "Unable to ", "Failed to ", "Completion with error"];

/// A pair of programs, one of which is to be killed.
struct Pair<'a> {
    /// The server's command line, without its port.
    server: &'a str,
    /// The client's.
    client: &'a str,
    /// Whether the port is one of the connection manager.
    is_by_cm: bool,
    /// Lines that a survivor may print; without any it may keep silent, too.
    last_words: &'a [&'a str],
    /// The sides that may wait for a message from the dead peer for ever.
    may_wait: Patience,
}

/// The sides that may wait for a message from a dead peer for ever: without a work request in the send queue
/// nothing tells a program that only looks for completions, whatever the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    Nobody,
    Client,
    Both,
}

/// The fates of those that are not killed.
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
        let keeper = place.keep();
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
        assert!(self.may_wait == Patience::Both || tally.ended > 0, "{tally:?}");
        place.end(keeper);
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
        let may_wait = match self.may_wait {
            Patience::Nobody => false,
            Patience::Client => server_dies,
            Patience::Both => true,
        };
        self.see_end(survivor, listens, may_wait, tally);
    }

    /// The survivor ends, unless it never had a peer.
    fn see_end(
        &self,
        survivor: &mut Program,
        listens: impl Fn() -> bool,
        may_wait: bool,
        tally: &mut Tally,
    ) {
        let end = Instant::now() + TIRED;
        let started = Instant::now();
        let status = loop {
            if let Some(status) = survivor.ends_within(LONELY) {
                break status;
            }
            let is_patient = || may_wait || rping::waits_for_itself(&survivor.output());
            if listens() || started.elapsed() > 6 * LONELY && is_patient() {
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

fn kills() -> u32 {
    if is_long() { 75 } else { 6 }
}

#[test]
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
        may_wait: Patience::Nobody,
    };
    pair.test("kill-rping", 1, kills());
}

#[test]
fn ping_pong_is_killed_in_an_event() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let pair = Pair {
        server: "ibv_rc_pingpong -e -g 1 -n 100000000",
        client: "ibv_rc_pingpong -e -g 1 -n 100000000 127.0.0.1",
        is_by_cm: false,
        last_words: &[RETRY_EXCEEDED, "Couldn't ", "client read", "client write", "server read"],
        may_wait: Patience::Both,
    };
    pair.test("kill-events", 3, kills());
}

#[test]
fn bandwidth_test_is_killed() {
    if !installed(&["ib_write_bw"]) {
        return;
    }
    let pair = Pair {
        server: "ib_write_bw -x 1 -q 2 -F -D 100",
        client: "ib_write_bw -x 1 -q 2 -F -D 100 127.0.0.1",
        is_by_cm: false,
        last_words: &PERFTEST,
        may_wait: Patience::Nobody,
    };
    pair.test("kill-bandwidth", 4, kills());
}

/// Both ends send, and both wait for events. The server sends nothing before it has received
/// something (`before_first_rx` in perftest's `run_iter_bi`): if the client dies right before its first
/// message, the server waits until it is tired of it, after two minutes.
#[test]
fn two_senders_are_killed() {
    if !installed(&["ib_send_bw"]) {
        return;
    }
    let pair = Pair {
        server: "ib_send_bw -x 1 -b -e -s 3000 -F -n 100000000",
        client: "ib_send_bw -x 1 -b -e -s 3000 -F -n 100000000 127.0.0.1",
        is_by_cm: false,
        last_words: &[&PERFTEST[..], &["Total Received=0,"]].concat(),
        may_wait: Patience::Nobody,
    };
    pair.test("kill-senders", 2, kills());
}

/// librdmacm watches the connections of sockets that were accepted, and of those that connected
/// without blocking (`rs_notify_svc` in `raccept` and `rconnect` of its `rsocket.c`), and wakes
/// `rpoll` when the peer has gone. It does not watch a socket that connected with blocking, as this
/// client's: that one waits for completions only, on every kernel.
#[test]
fn a_stream_is_killed() {
    if !installed(&["rstream"]) {
        return;
    }
    let pair = Pair {
        server: "rstream -S 30000 -C 100000000 -T a",
        client: "rstream -S 30000 -C 100000000 -T a -s 127.0.0.1",
        is_by_cm: true,
        last_words: &[],
        may_wait: Patience::Client,
    };
    pair.test("kill-stream", 5, kills());
}

/// Many threads and queue pairs, of which each reliable one has to notice.
fn traffic_is_killed(name: &str, salt: u64, options: &str) {
    let program = traffic::program();
    let options = format!("{ENDLESS} --threads 2 --queue-pairs 3 --max-message 64KiB {options}");
    let client = format!("{program} {options} {LOCALHOST}");
    let pair = Pair {
        server: &program,
        client: &client,
        is_by_cm: false,
        last_words: &[PEER_GONE, "cannot hear the peer", "cannot speak to", "cannot connect to"],
        may_wait: Patience::Nobody,
    };
    pair.test(name, salt, kills());
}

#[test]
fn polling_threads_are_killed() {
    traffic_is_killed("kill-polling", 6, "");
}

#[test]
fn sleeping_threads_are_killed() {
    traffic_is_killed("kill-sleeping", 7, "--events");
}
