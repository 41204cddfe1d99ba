//! The bench of Mooncake's transfer engine, which moves what language models remember from one machine's memory
//! to another's over all devices that there are. `conformance/engines` brings it and runs these tests.

use programs::place::Place;
use programs::{LIMIT, LOCALHOST, assert_has, comes_about, installed, the_processors};

const PROGRAM: &str = "transfer_engine_bench";

/// The packets that a port has sent (`soft-hca ls`).
fn sent(place: &Place, port: &str) -> u64 {
    let listing = place.listing();
    let begin = format!("counters {port} sent packets ");
    let count =
        listing.lines().find_map(|line| line.trim().strip_prefix(&begin)?.split(' ').next());
    count.map_or(0, |count| count.parse().unwrap())
}

/// A transfer goes on by the other device, and ends as if nothing had been.
#[test]
#[ignore = "conformance/engines brings what it runs"]
fn a_cable_of_two_is_pulled() {
    if !installed(&[PROGRAM]) {
        return;
    }
    let devices = ["--device", "rxe0", "--device", "rxe1"].map(str::to_string);
    let place = Place::with("mooncake", Vec::new(), devices.to_vec());
    let keeper = place.keep();
    let _processors = the_processors();
    let start = |options: &str| {
        let line = format!(
            "{PROGRAM} --metadata_server=P2PHANDSHAKE --local_server_name={LOCALHOST} --device_name=rxe0,rxe1 \
             --threads=1 --batch_size=4 --block_size=65536 --buffer_size=67108864 {options}"
        );
        // No more pollers than need be.
        place.start_in(&line, |command| command.env("MC_WORKERS_PER_CTX", "1"))
    };
    let mut target = start("--mode=target");
    let listens = format!("listening on {LOCALHOST}:");
    let segment = |output: &str| {
        let port = output.split_once(&listens)?.1.split_once('\n')?.0.to_string();
        output.contains("DRAM is used").then_some(port)
    };
    let is_ready = comes_about(LIMIT, || segment(&target.output()).is_some());
    assert!(is_ready, "{}", target.output());
    let segment = segment(&target.output()).unwrap();
    let mut initiator = start(&format!(
        "--mode=initiator --segment_id={LOCALHOST}:{segment} --operation=write --duration=12"
    ));
    initiator.wait_until(|| ["rxe0/1", "rxe1/1"].iter().all(|port| sent(&place, port) > 0));
    let cable = ["port", "down", "rxe1/1", "--fabric", place.fabric_name()];
    assert!(place.command(&cable).status().unwrap().success());
    let inactive = "Context rxe1 is now inactive due to fatal event: 10";
    assert!(comes_about(LIMIT, || initiator.output().contains(inactive)), "{}", initiator.output());
    let before = ["rxe0/1", "rxe1/1"].map(|port| sent(&place, port));
    initiator.wait_until(|| sent(&place, "rxe0/1") > before[0]);
    assert_has(&initiator.succeed(), &["Test completed: duration "]);
    assert_eq!(sent(&place, "rxe1/1"), before[1]);
    assert_has(&target.output(), &[inactive]);
    target.kill();
    place.assert_no_objects();
    place.end(keeper);
}
