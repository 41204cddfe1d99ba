//! The `harness` command itself: labelled output, exit statuses, clear errors.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output};

use harness::examples::EXAMPLES;

fn harness(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_harness")).args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_pair_is_shown_with_labels_in_the_order_of_time() {
    let server = "echo up; sleep 0.5; echo down";
    let output = harness(&[
        "pair",
        "--server",
        server,
        "--client",
        "echo hello >&2",
        "--ready",
        "line:^up$",
    ]);
    assert_eq!(
        stdout(&output),
        "server| up\nclient| hello\nserver| down\nserver ended with 0, client with 0\n"
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_side_that_fails_makes_the_pair_fail() {
    let output =
        harness(&["pair", "--server", "echo up", "--client", "exit 3", "--ready", "line:up"]);
    assert!(stdout(&output).ends_with("server ended with 0, client with 3\n"));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn what_cannot_be_done_is_said_with_its_name() {
    for (args, named) in [
        (&["golden", "--data", "/nonexistent"][..], "/nonexistent/cases.json"),
        (&["golden", "--case", "no-such-case"], "no-such-case"),
        (&["golden", "--example", "ping-sr-9"], "ping-sr-9"),
        (&["golden", "--device", "three"], "three"),
        (&["golden", "--soft-hca=/nonexistent/soft-hca"], "/nonexistent/soft-hca"),
        (&["demo", "ping-sr-9"], "ping-sr-9"),
        (&["demo", "--bin-dir", "/nonexistent", "mc"], "/nonexistent/mc"),
        (&["pair", "--server", "x", "--client", "y", "--ready", "line:("], "line:("),
        (&["pair", "--server", "x", "--client", "y", "--time-limit", "0"], "time-limit"),
    ] {
        let output = harness(args);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(named), "{args:?}: {message}");
    }
}

/// The reader closes its end, as `| head` does.
#[test]
fn an_end_of_the_reader_is_no_error_of_ours() {
    let (reader, writer) = UnixStream::pair().unwrap();
    drop(reader);
    let mut harness = Command::new(env!("CARGO_BIN_EXE_harness"));
    let output = harness.args(["demo", "--list"]).stdout(OwnedFd::from(writer)).output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 13));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn missing_programs_fail_unless_they_may_be_skipped() {
    let args = ["golden", "--bin-dir", "/nonexistent", "--case", "mc/cli-h"];
    let output = harness(&args);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).ends_with("\n0 passed, 1 failed, 0 skipped\n"));
    let output = harness(&[&args[..], &["--skip-missing"]].concat());
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).ends_with("\n0 passed, 0 failed, 1 skipped\n"));
}

#[test]
fn a_wrong_program_fails_its_case_and_shows_the_difference() {
    // The program prints nothing and ends with 0, whatever its arguments.
    let folder = std::env::temp_dir().join(format!("harness-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink("/bin/true", folder.join("mc")).unwrap();
    let output = harness(&["golden", "--bin-dir", folder.to_str().unwrap(), "--case", "mc/cli-h"]);
    std::fs::remove_dir_all(&folder).unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("server.status: 0, expected 1"), "{text}");
    assert!(text.contains("- usage") || text.contains("- mc") || text.contains("- ./mc"), "{text}");
}

#[test]
fn every_command_explains_itself() {
    for command in ["golden", "lessons", "record", "demo", "compare", "pair"] {
        let output = harness(&[command, "--help"]);
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains("Usage: harness"), "{command}");
    }
    assert_eq!(stdout(&harness(&["demo", "--list"])).lines().count(), EXAMPLES.len());
    assert_eq!(stdout(&harness(&["golden", "--list"])).lines().count(), 170);
}

#[test]
fn what_failed_comes_again_at_the_end() {
    let case = "ping-sr-1/cli-help";
    let output = harness(&["golden", "--bin-dir", "/nonexistent", "--case", case]);
    let text = stdout(&output);
    let (_, end) = text.split_once("failures:\n").expect("there are failures");
    assert!(end.starts_with(case) && end.contains("no program /nonexistent/ping-sr-1"), "{text}");
    assert!(end.ends_with("0 passed, 1 failed, 0 skipped\n"), "{text}");
    assert_eq!(output.status.code(), Some(1));
}
