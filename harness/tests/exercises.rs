//! What the exercises are about, and the recordings of their neighbours do not show.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo has put the programs: this test is in `deps` below it.
fn bin_dir() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(Path::parent).unwrap().to_owned()
}

/// What the harness prints on soft-hca, in a fabric that is called after `name`.
fn harness(name: &str, args: &[&str]) -> String {
    let fabric = format!("{name}-{}", std::process::id());
    let run = Command::new(bin_dir().join("soft-hca"))
        .args(["run", "--fabric", &fabric, "--", env!("CARGO_BIN_EXE_harness")])
        .args(args)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{text}{}", String::from_utf8_lossy(&run.stderr));
    text
}

#[test]
fn an_exercise_works_with_its_neighbours() {
    let bin_dir = bin_dir();
    let bin_dir = bin_dir.display();
    let neighbours =
        [("ping-sr-2e", "ping-sr-1"), ("ping-sr-2e", "ping-sr-2"), ("blast-sr-2e", "blast-sr-2")];
    let swapped = neighbours.map(|(one, other)| (other, one));
    for (server, client) in neighbours.into_iter().chain(swapped) {
        let server = format!("{bin_dir}/{server}-server -a 127.0.0.1");
        let client = format!("{bin_dir}/{client}-client -a 127.0.0.1 -c 100 -v");
        let text = harness("neighbours", &["pair", "--server", &server, "--client", &client]);
        assert!(text.contains("-server: 100 recv completions, 100 send completions"), "{text}");
        assert!(!text.contains("verification failed"), "{text}");
    }
}

/// The client's output of a run over eight buffers on soft-hca.
fn client_of(example: &str) -> Vec<String> {
    let flags = ["-c", "100", "-s", "64", "-b", "8", "-T", "-x"];
    let bin_dir = bin_dir();
    let args = ["demo", "--bin-dir", bin_dir.to_str().unwrap(), example];
    let text = harness(example, &[&args, &flags[..]].concat());
    text.lines().filter_map(|line| line.strip_prefix("client| client: ")).map(Into::into).collect()
}

/// The number behind `name`.
fn number(lines: &[String], name: &str) -> usize {
    lines.iter().find_map(|line| line.strip_prefix(name)).unwrap().trim().parse().unwrap()
}

/// Of all completions: how many there may be if each posted list of sends has one. The client's
/// three receives for acks may be flushed at the end.
fn completions_and_most(example: &str) -> (usize, usize) {
    let lines = client_of(example);
    assert_eq!(number(&lines, "total work requests "), 100);
    let acks = lines.iter().filter(|line| line.starts_with("our_post_recv ack_count ")).count();
    let calls = number(&lines, "ibv_post_send calls ");
    (number(&lines, "total work completions "), calls + acks + 3)
}

#[test]
fn blast_sr_2e_has_one_completion_for_each_list_of_sends() {
    let (completions, most) = completions_and_most("blast-sr-2e");
    assert!(completions <= most, "{completions} completions, at most {most} were expected");
    // each ack brings two credits or more, so there are far fewer lists than sends
    let (completions, most) = completions_and_most("blast-sr-2");
    assert!(completions > most, "{completions} completions of single sends, not over {most}");
}
