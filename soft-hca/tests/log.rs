//! The daemon's log: empty unless there is something to say, and where `soft-hca doctor` shows it.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use programs::place::Place;
use programs::{LOCALHOST, installed};

/// A documentation address, which no machine has.
const STRANGE: &str = "192.0.2.7";

#[test]
fn what_is_refused_is_in_the_log_that_doctor_shows() {
    if !installed(&["rping", "ibv_devinfo"]) {
        return;
    }
    let place = Place::new("log");
    let log = place.file("soft-hca.log");
    assert!(place.start("ibv_devinfo").succeed().contains("rxe0"));
    place.assert_gone();
    assert!(!log.exists(), "{}", fs::read_to_string(&log).unwrap());
    let mut rping = place.start(&format!("rping -s -a {STRANGE}"));
    assert!(!rping.wait().success(), "{}", rping.output());
    place.assert_gone();
    let text = fs::read_to_string(&log).unwrap();
    let last = text.lines().last().unwrap();
    assert!(last.contains("INFO") && last.contains("BIND"), "{text}");
    let refusal = " is refused: EADDRNOTAVAIL, the address is none of the device's";
    assert!(last.contains(refusal), "{text}");
    let output = place.command(&["doctor"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains(&format!("log: {}, ", log.display())), "{said}");
    assert!(said.contains(last), "{said}");
}

#[test]
fn the_log_says_which_check_has_failed() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let place = Place::new("log-reason");
    // Receives at a time, and so completions, of which the device has 32767 in a queue.
    assert!(!place.start("ibv_rc_pingpong -r 40000").wait().success());
    place.assert_gone();
    let text = fs::read_to_string(place.file("soft-hca.log")).unwrap();
    let [line] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    let refusal = "CREATE_CQ is refused: EINVAL, more completions than the device's max_cqe";
    assert!(line.contains(refusal), "{text}");
}

#[test]
fn the_level_says_how_much() {
    if !installed(&["rping"]) {
        return;
    }
    for (level, has_events, has_refusals) in [("debug", true, true), ("error", false, false)] {
        let place = Place::new(&format!("log-{level}"));
        let log = place.file("log");
        let keeper = place
            .keep_in(|command| command.env("SOFT_HCA_LOG", &log).env("SOFT_HCA_LOG_LEVEL", level));
        let mut server = place.start(&format!("rping -s -a {LOCALHOST} -C 1 -v"));
        server.wait_until(|| place.listens(7174));
        place.start(&format!("rping -c -a {LOCALHOST} -C 1 -v")).succeed();
        server.succeed();
        assert!(!place.start(&format!("rping -s -a {STRANGE}")).wait().success());
        place.end(keeper);
        let text = fs::read_to_string(&log).unwrap();
        assert_eq!(text.contains("CONNECT_REQUEST"), has_events, "{text}");
        assert_eq!(text.contains(" is refused: "), has_refusals, "{text}");
    }
    let place = Place::new("log-wrong");
    let mut command = place.command(&["run", "--", "true"]);
    let output = command.env("SOFT_HCA_LOG_LEVEL", "loud").output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("SOFT_HCA_LOG_LEVEL is error, warn, info or debug"), "{said}");
}

/// Another user may have been first where the log is to be, in a folder that is everybody's.
#[test]
fn what_is_no_file_holds_nobody_up() {
    if !installed(&["ibv_rc_pingpong", "ibv_devinfo"]) {
        return;
    }
    let place = Place::new("log-odd");
    let log = place.file("soft-hca.log");
    let refused = || {
        assert!(!place.start("ibv_rc_pingpong -r 40000").wait().success());
        place.assert_gone();
        let output = place.command(&["doctor"]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let warning = "soft-hca.log cannot be used: ";
        assert!(said.contains(warning), "{said}");
    };
    assert!(Command::new("mkfifo").arg(&log).status().unwrap().success());
    refused();
    fs::remove_file(&log).unwrap();
    symlink("/dev/zero", &log).unwrap();
    refused();
    let mut command = place.command(&["run", "--", "true"]);
    let output = command.env("SOFT_HCA_LOG", &log).output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("soft-hca: cannot write to "), "{said}");
}

#[test]
fn no_terminal_obeys_what_is_in_it() {
    if !installed(&["ibv_devinfo"]) {
        return;
    }
    let place = Place::new("log-escapes");
    fs::write(place.file("soft-hca.log"), "a line\n\x1b]0;title\x07 \x1b[31mred\n").unwrap();
    let output = place.command(&["doctor"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("the last line: \\u{1b}]0;title\\u{7} \\u{1b}[31mred\n"), "{said}");
    assert!(!said.contains('\x1b'), "{said}");
}
