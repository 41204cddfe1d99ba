//! Three ways in which rping ends badly by itself, or not at all.
//!
//! Its main thread destroys the event channel (`main`, `rdma_destroy_event_channel(cb->cm_channel)`)
//! without waiting for the other one, `cm_thread`, which asks for the next event as soon as it has
//! acknowledged the last. If it does so only after the channel is gone, `rdma_get_cm_event` fails,
//! and `cm_thread` ends the program with -1 although all pings are done. rdma-core has repaired that
//! in `librdmacm/examples/rping.c`, commit f3ae6534a, "terminate CM event thread before exiting".
//! Since then `cm_thread` waits in `poll`, and waits for ever if it is woken for an event that is
//! discarded before it asks, as its id is destroyed (`rdma_destroy_id`); the main thread waits for
//! its end.
//!
//! Its server, if the peer goes before the connection is established, waits for its other thread
//! (`pthread_join(cb->cqthread, NULL)`), which waits for a completion. It has not disconnected, so
//! nothing is flushed and none comes.

use std::process::ExitStatus;

use crate::LOCALHOST;
use crate::place::Place;

/// Lines that the race leaves behind: the descriptor is closed, or is just being closed.
const RACE: [&str; 2] =
    ["rdma_get_cm_event: Bad file descriptor\n", "rdma_get_cm_event: Invalid argument\n"];

/// Its last lines anyway, as client or server.
const LAST_WORDS: [&str; 3] = [
    "client DISCONNECT EVENT...\n",
    "server DISCONNECT EVENT...\n",
    "wait for RDMA_READ_ADV state 10\n",
];

/// Command of a shell that waits until rping's server listens.
pub fn listens(place: &Place, port: u16) -> String {
    let soft_hca = place.soft_hca().display();
    format!("until {soft_hca} ls | grep ' state LISTEN ' | grep -q :{port}; do sleep 0.1; done")
}

/// Script for a shell that runs a pair with so many pings, and fails unless all have come back. The
/// way in which the two end does not matter.
pub fn script(place: &Place, port: u16, pings: usize) -> String {
    let line = format!("-a {LOCALHOST} -p {port} -C {pings}");
    format!(
        "rping -s {line} &
        {listens}
        rping -c {line} -v >{output}
        wait
        grep -q 'ping data: rdma-ping-{last}: ' {output}",
        listens = listens(place, port),
        output = place.file("rping-client").display(),
        last = pings - 1,
    )
}

/// Whether it is rping's server that says this, and waits for ever.
pub fn waits_for_itself(output: &str) -> bool {
    output.contains("wait for CONNECTED state") && output.contains("connect error -1")
}

/// Whether a program is rping (run by another program or not), has done all the pings that its command
/// line (with `-C` and `-v`) asks for, and has failed for nothing but this reason.
pub fn has_raced(line: &str, status: ExitStatus, output: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().skip_while(|word| *word != "rping").collect();
    let count = words.iter().position(|word| *word == "-C").and_then(|at| words.get(at + 1));
    let Some(count) = count.and_then(|count| count.parse::<usize>().ok()) else { return false };
    let races: usize = RACE.iter().map(|race| output.matches(race).count()).sum();
    // These may stand in the middle of a long ping, the rest of which was in a buffer.
    let lines = RACE.iter().chain(&LAST_WORDS);
    let output = lines.fold(output.to_string(), |rest, line| rest.replace(line, ""));
    let (pings, others): (Vec<&str>, Vec<&str>) =
        output.lines().partition(|line| line.contains("ping data: rdma-ping-"));
    let mut others =
        others.iter().filter(|line| !line.is_empty() && !line.starts_with("soft-hca: "));
    status.code() == Some(255) && pings.len() == count && races == 1 && others.next().is_none()
}
