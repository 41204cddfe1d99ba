//! Ctrl-Z stops the programs of a pair, too, and they continue when the harness does.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The state of a process, as proc_pid_stat(5) has it.
fn state(pid: u32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

fn await_states(pids: &[u32], stopped: bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while pids.iter().any(|pid| (state(*pid) == 'T') != stopped) {
        let states: Vec<_> = pids.iter().map(|pid| state(*pid)).collect();
        assert!(Instant::now() < end, "stopped: {stopped}, and they are {states:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn send(pid: u32, signal: &str) {
    let pid = pid.to_string();
    assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
}

#[test]
fn a_pair_stops_and_goes_on_with_the_harness() {
    let says = |word: &str| format!("echo {word} $$; exec sleep 1000");
    let mut harness = Command::new(env!("CARGO_BIN_EXE_harness"))
        .args(["pair", "--ready", "line:up", "--server", &says("up"), "--client", &says("too")])
        // The harness is a job of its own, as in a shell: the system does not stop an orphaned
        // process group.
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(harness.stdout.take().unwrap()).lines();
    let pid = |line: String| line.rsplit_once(' ').unwrap().1.parse::<u32>().unwrap();
    let mut pids: Vec<u32> = lines.take(2).map(|line| pid(line.unwrap())).collect();
    pids.push(harness.id());
    for _ in 0..2 {
        send(harness.id(), "TSTP");
        await_states(&pids, true);
        send(harness.id(), "CONT");
        await_states(&pids, false);
    }
    harness.kill().unwrap();
    harness.wait().unwrap();
}
