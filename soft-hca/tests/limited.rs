//! Descriptors: a daemon that has none left, and programs that close all of theirs.

use std::fs;
use std::process::Command;
use std::time::Duration;

use programs::place::Place;
use programs::{LIMIT, assert_has, comes_about, compile, installed};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/limited/closed.c");

/// The beginning of a command line whose command, and its children, may have so many descriptors.
fn limited_to(limit: u32) -> Vec<String> {
    let script = format!("ulimit -n {limit}; exec \"$0\" \"$@\"");
    vec!["bash".into(), "-c".into(), script]
}

/// Shells that open the device, more than the daemon has descriptors for, and keep it until the end of a pipe.
const CROWD: &str = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do \
    (exec 9</dev/infiniband/uverbs0 && echo opened && read line <end; exit 0) & done; wait";

/// Processor time of a process so far, in clock ticks.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn who_finds_no_descriptor_is_told_and_the_daemon_rests() {
    if !installed(&["bash", "ibv_devinfo"]) {
        return;
    }
    let place = Place::with("limited", limited_to(64), Vec::new());
    let (script, end) = (place.file("crowd.sh"), place.file("end"));
    fs::write(&script, CROWD).unwrap();
    assert!(Command::new("mkfifo").arg(&end).status().unwrap().success());
    let mut crowd = place.start(&format!("bash {}", script.display()));
    let output = crowd.output_file();
    let printed = || fs::read_to_string(&output).unwrap();
    let refused = "gets no device: the fabric's daemon has no file descriptor left";
    crowd.wait_until(|| printed().contains(refused));
    assert_has(&printed(), &["opened"]);
    // A daemon that looks at its listener again and again takes all the time that there is.
    let [daemon] = place.daemons()[..] else { panic!("{:?}", place.daemons()) };
    let before = ticks(daemon);
    let turned_away = || {
        let mut new = place.start("ibv_devinfo");
        !new.wait().success() && new.output().contains("no file descriptor left")
    };
    assert!(comes_about(LIMIT, turned_away));
    std::thread::sleep(Duration::from_secs(2));
    let taken = ticks(daemon) - before;
    assert!(taken < 100, "{taken} ticks");
    assert_has(&fs::read_to_string(place.file("soft-hca.log")).unwrap(), &["turned away"]);
    // The daemon has room again when they have gone.
    fs::write(&end, "").unwrap();
    crowd.succeed();
    assert_has(&place.start("ibv_devinfo").succeed(), &["hca_id"]);
    place.assert_gone();
}

/// A daemon with too few descriptors from the beginning leaves nothing behind.
#[test]
fn a_daemon_that_cannot_serve_ends() {
    if !installed(&["bash"]) {
        return;
    }
    for limit in [12, 14, 16, 18, 20, 24] {
        let place = Place::with(&format!("limited-{limit}"), limited_to(limit), Vec::new());
        let mut program = place.start("true");
        let is_good = program.wait().success();
        assert!(is_good || program.output().contains("soft-hca: "), "{}", program.output());
        let is_gone = comes_about(LIMIT, || place.daemons().is_empty());
        assert!(is_gone, "{limit}: a daemon stays");
    }
}

/// A completion channel takes descriptors of the program's: without one, there is none, and no trace of it.
#[test]
fn channels_of_a_program_with_few_descriptors() {
    let place = Place::new("limited-channels");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/limited/channel.c");
    let Some(program) = compile(&place, source, &["ibverbs"]) else { return };
    let output = place.start(&program).succeed();
    assert_has(&output, &["0 left: refused", "9 left: made", "some at the end"]);
    place.assert_gone();
}

/// A program that becomes a daemon closes all descriptors that it does not know before it opens the device.
#[test]
fn a_program_that_closes_all_descriptors_finds_its_device() {
    let place = Place::new("closed-all");
    let Some(program) = compile(&place, SOURCE, &["ibverbs"]) else { return };
    for how in ["close", "close_range", "closefrom", "dup2"] {
        assert_eq!(place.start(&format!("{program} {how}")).succeed(), "rxe0\n", "{how}");
        place.assert_gone();
    }
}
