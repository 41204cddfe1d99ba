//! Programs that poll on a processor that others want, too: they yield it while they find nothing, so that a
//! pair on one processor exchanges messages as fast as the kernel can switch between the two. See `stock.rs`
//! about programs that are not installed.

use std::fs;

use programs::place::Place;
use programs::{LIMIT, LOCALHOST, comes_about, installed, polls_are_seen, tcp, the_processors};

const ROUND_TRIPS: u64 = 1000;

/// A line of `status` in proc(5) without its name.
fn status(pid: u32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_string())
}

/// The first processor that this process may run on.
fn first_processor() -> String {
    let all = status(std::process::id(), "Cpus_allowed_list:").unwrap();
    all.split([',', '-']).next().unwrap().to_string()
}

/// A program that polls until it is preempted is preempted for each message, since its peer has no other way
/// to the processor.
#[test]
fn a_pair_on_one_processor_gives_it_to_each_other() {
    if !installed(&["ibv_rc_pingpong", "taskset"]) || !polls_are_seen() {
        return;
    }
    let _processors = the_processors();
    let place = Place::new("processors");
    let keeper = place.keep();
    let (processor, port) = (first_processor(), tcp::free_port());
    let line = format!("taskset -c {processor} ibv_rc_pingpong -g 1 -n {ROUND_TRIPS} -p {port}");
    let mut server = place.start(&line);
    server.wait_until(|| tcp::listens(port));
    let mut client = place.start(&format!("{line} {LOCALHOST}"));
    let mut preemptions = 0;
    let has_ended = comes_about(LIMIT, || {
        let seen = status(client.pid(), "nonvoluntary_ctxt_switches:");
        // The count is gone once the client has ended.
        preemptions = seen.and_then(|count| count.parse().ok()).unwrap_or(preemptions);
        client.has_ended()
    });
    assert!(has_ended, "{}", client.output());
    client.succeed();
    server.succeed();
    println!("put aside {preemptions} times in {ROUND_TRIPS} round trips");
    assert!(preemptions < ROUND_TRIPS * 3 / 4, "put aside {preemptions} times");
    place.end(keeper);
}
