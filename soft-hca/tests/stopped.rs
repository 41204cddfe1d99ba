//! Programs that are stopped (SIGSTOP, as by Ctrl-Z or a debugger), at any moment and while they
//! hold a lock of the arena: nobody else in the fabric waits for them, they go on when they are
//! let, and they can be killed.
//!
//! `SOFT_HCA_LONG=1` makes the runs long, and `SOFT_HCA_SEED` another number starts them
//! differently. See `stock.rs` about programs that are not installed.

use std::collections::BTreeMap;
use std::hint;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use programs::arena::{Arena, Kind};
use programs::bystanders::{Bystanders, among_bystanders, can_stand_by};
use programs::locked::{KINDS, stop_with_lock, traffic_that_locks};
use programs::place::Place;
use programs::program::Program;
use programs::random::Random;
use programs::traffic::{PEER_GONE, Traffic};
use programs::{LOCALHOST, installed, is_long, signal, tcp};

/// Pairs that may end before one is stopped while it has a lock.
const PAIRS_FOR_A_LOCK: u32 = 100;

/// A pair of programs that takes longer waits for something that is not its own.
const HELD_UP: Duration = Duration::from_secs(2);

/// How long programs are stopped at least, in milliseconds.
fn while_stopped(random: &mut Random) -> Duration {
    Duration::from_millis(1000 + random.below(1000))
}

/// Stops one or both of a pair at a random moment and for seconds, in which the bystanders go on.
fn stop_some([server, client]: [&mut Program; 2], random: &mut Random, bystanders: &Bystanders) {
    thread::sleep(Duration::from_micros(random.below(300_000)));
    let (victims, name): (&[&mut Program], _) = match random.below(3) {
        0 => (&[server], "the server is stopped"),
        1 => (&[client], "the client is stopped"),
        _ => (&[server, client], "both are stopped"),
    };
    victims.iter().for_each(|victim| signal::stop(victim));
    thread::sleep(while_stopped(random));
    bystanders.go_on(name);
    victims.iter().for_each(|victim| signal::go_on(victim));
}

/// Checked traffic is stopped so many times; every byte is right in the end.
fn traffic_is_stopped(place: &Place, stops: u32, random: &mut Random, bystanders: &Bystanders) {
    let (mut left, mut pairs) = (stops, 0);
    while left > 0 {
        pairs += 1;
        assert!(pairs <= 10 * stops, "{pairs} pairs end before they are stopped {stops} times");
        let events = ["", "--events"][random.below(2) as usize];
        let options = "--bytes 256MiB --threads 2 --queue-pairs 3 --max-message 64KiB";
        let mut pair = Traffic::start(place, &format!("{options} {events}"));
        pair.wait_until_connected();
        while left > 0 && !pair.client.has_ended() && !pair.server.has_ended() {
            stop_some([&mut pair.server, &mut pair.client], random, bystanders);
            left -= 1;
        }
        let text = pair.succeed();
        assert!(text.contains("every byte checked"), "{text}");
    }
}

/// A pair that does not end by itself is stopped so many times and goes on each time. Then one is
/// killed while the other is stopped, and that one after it.
fn another_pair_is_stopped(
    line: &str,
    place: &Place,
    stops: u32,
    random: &mut Random,
    bystanders: &Bystanders,
) {
    let port = tcp::free_port();
    let mut server = place.start(&format!("{line} -p {port}"));
    server.wait_until(|| tcp::listens(port));
    let mut client = place.start(&format!("{line} -p {port} {LOCALHOST}"));
    let arena = Arena::of(place);
    let filled_to = |pid| arena.find_process(pid).map(|process| arena.filled_to(process));
    for _ in 0..stops {
        let pid = client.pid();
        let last = filled_to(pid);
        client.wait_until(|| filled_to(pid).is_some() && filled_to(pid) != last);
        stop_some([&mut server, &mut client], random, bystanders);
    }
    let (victim, peer) =
        if random.below(2) == 0 { (&mut server, &mut client) } else { (&mut client, &mut server) };
    signal::stop(victim);
    peer.kill();
    bystanders.go_on("one is stopped and has lost its peer");
    victim.kill();
}

#[test]
fn nobody_waits_for_who_is_stopped() {
    if !can_stand_by() || !installed(&["ib_send_bw", "ib_write_lat"]) {
        return;
    }
    let stops = if is_long() { 20 } else { 2 };
    let place = Place::new("stopped");
    let keeper = place.keep();
    let mut random = Random::new(8);
    among_bystanders(&place, |bystanders| {
        traffic_is_stopped(&place, stops, &mut random, bystanders);
        for line in
            ["ib_send_bw -x 1 -b -e -s 3000 -F -n 100000000", "ib_write_lat -x 1 -F -n 100000000"]
        {
            another_pair_is_stopped(line, &place, stops / 2, &mut random, bystanders);
        }
    });
    place.end(keeper);
}

/// The fate of a program that is stopped while it has a lock.
#[derive(Clone, Copy, Debug)]
enum End {
    /// It goes on, and every byte is right.
    GoesOn,
    /// It is killed, and its peer is told.
    IsKilled,
    /// Its peer is killed meanwhile, and it is told when it goes on.
    LosesPeer,
}

/// The one who is left says that its peer has gone.
fn is_told(survivor: &mut Program) {
    let status = survivor.wait();
    let text = survivor.output();
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains(PEER_GONE), "{text}");
}

/// Stops a program while it has a lock, and has it come to an end. Gives the locks that it had.
fn stop_one_with_lock(
    place: &Place,
    (wanted, end): (Kind, End),
    random: &mut Random,
    bystanders: &Bystanders,
) -> Vec<Kind> {
    for _ in 0..PAIRS_FOR_A_LOCK {
        let events = ["", "--events"][random.below(2) as usize];
        let options = traffic_that_locks(wanted);
        let bytes = if options.ends_with("--max-message 8") { "4MiB" } else { "128MiB" };
        let mut pair = Traffic::start(place, &format!("--bytes {bytes} {events} {options}"));
        pair.wait_until_connected();
        let (victim, peer) = if random.below(2) == 0 {
            (&mut pair.server, &mut pair.client)
        } else {
            (&mut pair.client, &mut pair.server)
        };
        let Some(held) = stop_with_lock(place, victim, wanted, random) else {
            pair.succeed();
            continue;
        };
        let name = format!("stopped with {held:?}, {end:?}");
        if matches!(end, End::LosesPeer) {
            peer.kill();
        }
        thread::sleep(while_stopped(random));
        bystanders.go_on(&name);
        match end {
            End::GoesOn => {
                signal::go_on(victim);
                let text = pair.succeed();
                assert!(text.contains("every byte checked"), "{text}");
            }
            End::IsKilled => {
                victim.kill();
                is_told(peer);
            }
            End::LosesPeer => {
                signal::go_on(victim);
                is_told(victim);
            }
        }
        return held;
    }
    panic!("of {PAIRS_FOR_A_LOCK} pairs none is stopped while it has a lock, best {wanted:?}");
}

#[test]
fn nobody_waits_for_who_is_stopped_with_a_lock() {
    if !can_stand_by() {
        return;
    }
    // Each kind of lock meets each end.
    const ENDS: [End; 3] = [End::GoesOn, End::IsKilled, End::LosesPeer];
    let rounds = if is_long() { 6 * KINDS.len() } else { KINDS.len() };
    let place = Place::new("stopped-locked");
    let keeper = place.keep();
    let mut random = Random::new(9);
    let mut hits: BTreeMap<Kind, u32> = BTreeMap::new();
    among_bystanders(&place, |bystanders| {
        for round in 0..rounds {
            let case = (KINDS[round % KINDS.len()], ENDS[round % ENDS.len()]);
            for kind in stop_one_with_lock(&place, case, &mut random, bystanders) {
                *hits.entry(kind).or_default() += 1;
            }
        }
    });
    println!("{rounds} stops; locks that were held: {hits:?}");
    place.end(keeper);
}

/// Keeps all processors busy, with two threads for each, while something is done.
fn beside_busy_loops<T>(act: impl FnOnce() -> T) -> T {
    /// Ends the loops, also when the test fails.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = Over(&is_over);
        for _ in 0..2 * thread::available_parallelism().unwrap().get() {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        act()
    })
}

/// A client is stopped amid large RDMA writes, and its server is ended; another pair is started then. Returns how long
/// that pair takes.
///
/// Its programs sleep until there is an event. Two that poll need both processors at the same time, which busy loops
/// keep from them for seconds, whether a program is stopped or not.
fn a_pair_beside_a_stopped_client(
    place: &Place,
    random: &mut Random,
    end: fn(&mut Program),
) -> Duration {
    let port = tcp::free_port();
    let line = format!("ib_write_bw -x 1 -F -D 60 -s 8388608 -p {port}");
    let mut server = place.start(&line);
    server.wait_until(|| tcp::listens(port));
    let mut client = place.start(&format!("{line} {LOCALHOST}"));
    let arena = Arena::of(place);
    let pid = client.pid();
    client.wait_until(|| arena.find_process(pid).is_some());
    thread::sleep(Duration::from_micros(random.below(1_000_000)));
    signal::stop(&client);
    end(&mut server);
    let port = tcp::free_port();
    let line = format!("ibv_rc_pingpong -e -g 1 -p {port}");
    let mut server = place.start(&line);
    server.wait_until(|| tcp::listens(port));
    let began = Instant::now();
    place.start(&format!("{line} {LOCALHOST}")).succeed();
    let time = began.elapsed();
    server.succeed();
    signal::go_on(&client);
    time
}

#[test]
fn another_pair_is_not_held_up_beside_a_stopped_client() {
    if !installed(&["ib_write_bw", "ibv_rc_pingpong"]) {
        return;
    }
    let place = Place::new("stopped-beside");
    let keeper = place.keep();
    let mut random = Random::new(10);
    let mut times = |rounds: u32| -> Vec<Duration> {
        let ends: [fn(&mut Program); 2] = [|server| signal::interrupt(server), Program::kill];
        let ends = ends.into_iter().cycle().take(rounds as usize);
        ends.map(|end| a_pair_beside_a_stopped_client(&place, &mut random, end)).collect()
    };
    // Without busy loops it is enough that the pairs end.
    let mut times = if is_long() { beside_busy_loops(|| times(400)) } else { times(2) };
    times.sort();
    let longest = times.last().unwrap();
    let held_up = times.iter().filter(|time| **time > HELD_UP).count();
    println!(
        "{held_up} of {} pairs took longer than {HELD_UP:?}, the longest {longest:?}",
        times.len()
    );
    assert!(!is_long() || held_up == 0);
    place.end(keeper);
}
