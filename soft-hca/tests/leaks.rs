//! Much of everything, and nothing is left: connections that come and go by the thousand, a
//! thousand queue pairs in dozens of processes. `SOFT_HCA_LONG=1` makes the runs long.

use std::fs;
use std::time::Duration;

use programs::arena::Arena;
use programs::cmtime::Cmtime;
use programs::place::Place;
use programs::traffic::{ENDLESS, PEER_GONE, Traffic};
use programs::{LIMIT, comes_about, descriptors, installed, is_long, tcp};

/// Kibibytes of a process's memory that no file backs.
fn anonymous_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse().unwrap()
}

/// Connections come and go, in processes that come and go.
#[test]
fn connections_leak_nothing() {
    if !installed(&["cmtime"]) {
        return;
    }
    let place = Place::new("cycles");
    const EACH: u32 = 20;
    let rounds = if is_long() { 10_000 / EACH } else { 200 / EACH };
    let keeper = place.keep();
    let cmtime = Cmtime::new(&place, tcp::free_port(), EACH);
    let serving = cmtime.serves().then(|| cmtime.start_server(&place));
    let listening = usize::from(serving.is_some());
    let cycle = || {
        let server = serving.is_none().then(|| cmtime.start_server(&place));
        cmtime.start_client(&place).succeed();
        server.map(|mut server| server.succeed());
        // The server's share is over when only its listening id is left.
        let is_over = comes_about(LIMIT, || place.objects().len() == listening);
        assert!(is_over, "left behind:\n{}", place.listing());
    };
    // Tables grow in the beginning.
    (0..5).for_each(|_| cycle());
    let [daemon] = place.daemons()[..] else { panic!("{:?}", place.daemons()) };
    let arena = Arena::of(&place);
    let count = || {
        let server = serving.as_ref().map(|server| ("server's descriptors", server.pid()));
        let open = [("daemon's descriptors", daemon)].into_iter().chain(server);
        let open = open.map(|(what, pid)| (what, descriptors(pid)));
        let objects = arena.objects();
        // Looking at the tables has given them memory: now is the time to count it.
        let bytes = ("bytes of the arena", arena.bytes() as usize);
        open.chain(objects).chain([bytes]).collect::<Vec<_>>()
    };
    let before = count();
    let kib_before = anonymous_kib(daemon);
    (0..rounds).for_each(|_| cycle());
    // The daemon may still have had a descriptor of the last client when it was first looked at,
    // and may be about to close one now: what must not be is more than before.
    let is_no_more = || count().iter().zip(&before).all(|(now, before)| now.1 <= before.1);
    let is_clean = comes_about(Duration::from_secs(10), is_no_more);
    let kib = anonymous_kib(daemon);
    println!(
        "cycles: {} connections; before {before:?} and after {:?}; memory of the daemon \
         {kib_before} KiB and {kib} KiB",
        rounds * EACH,
        count(),
    );
    assert!(is_clean, "before {before:?}, after {:?}", count());
    // An object that stayed of each connection would be more than this.
    assert!(kib <= kib_before + 256, "the daemon has grown from {kib_before} to {kib} KiB");
    if let Some(mut server) = serving {
        server.kill();
    }
    place.assert_no_objects();
    place.end(keeper);
}

/// Many queue pairs in many processes, all at the same time and all with traffic.
#[test]
fn many_queue_pairs() {
    let (pairs, threads, each) = if is_long() { (16, 2, 16) } else { (4, 1, 25) };
    let place = Place::new("many");
    let keeper = place.keep();
    let options =
        format!("{ENDLESS} --events --threads {threads} --queue-pairs {each} --max-message 2KiB");
    let start = |_| Traffic::start(&place, &options);
    let mut all: Vec<Traffic> = (0..pairs).map(start).collect();
    all.iter_mut().for_each(Traffic::wait_until_connected);
    let expected = pairs * threads * each * 2;
    let ready = place.objects().iter().filter(|line| line.contains(" state RTS ")).count();
    assert_eq!(ready, expected, "{}", place.listing());
    println!("many: {expected} queue pairs in {} processes", 2 * pairs);
    for pair in &mut all {
        // A first mebibyte is through, and every byte of it was right.
        let is_moving = || {
            let text = pair.client.output();
            let progress = text.lines().filter_map(|line| line.split_once(" of ")?.0.parse().ok());
            progress.max().is_some_and(|mebibytes: u64| mebibytes > 0)
        };
        assert!(comes_about(LIMIT, is_moving), "{}", pair.client.output());
        for program in [&mut pair.server, &mut pair.client] {
            assert!(!program.has_ended(), "{}", program.output());
        }
    }
    all.iter_mut().for_each(|pair| pair.client.kill());
    for pair in &mut all {
        assert!(!pair.server.wait().success());
        assert!(pair.server.output().contains(PEER_GONE), "{}", pair.server.output());
    }
    place.assert_no_objects();
    place.end(keeper);
}
