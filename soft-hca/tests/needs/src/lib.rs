//! Needs of tests that a machine may not meet. A test without it is skipped: the runner of tests counts it as passed,
//! so a line in the runner's output says that it was not, and `./check` counts and names it by that line.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Write;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

/// With the value `fail` a test that lacks what can be installed fails.
pub const MISSING: &str = "SOFT_HCA_MISSING";

/// Skips the calling test, for something that can be installed is missing; the caller returns.
///
/// # Panics
///
/// The environment says so by [`MISSING`].
#[track_caller]
pub fn missing(what: impl Display) {
    let fails = std::env::var_os(MISSING).is_some_and(|value| value == "fail");
    assert!(!fails, "missing: {what}");
    skipped(what);
}

/// Skips the calling test, for this machine, its user or its settings do not allow it; the caller returns.
#[track_caller]
pub fn skipped(why: impl Display) {
    static NAMED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let name = calling_test();
    // A test may lack several things.
    if NAMED.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone()) {
        // The runner keeps what `println!` writes to itself. It may have written half a line.
        let line = format!("\ntest {name} ... skipped: {why}\n");
        let _ = std::io::stdout().write_all(line.as_bytes());
    }
}

/// The runner gives the thread of a test the test's name. In another thread of it the caller's line has to do.
#[track_caller]
fn calling_test() -> String {
    let thread = std::thread::current();
    let name = thread.name().filter(|name| *name != "main");
    name.map_or_else(|| Location::caller().to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Output};

    use super::*;

    /// Set where the next test is run by the one behind it.
    const INNER: &str = "SOFT_HCA_NEEDS_INNER";

    #[test]
    fn lacks_something() {
        if std::env::var_os(INNER).is_some() {
            println!("this is said to nobody");
            missing("a program is not installed (package a)");
            missing("nor is another");
        }
    }

    #[test]
    fn a_skipped_test_is_named() {
        let run = |value: &str| -> Output {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "tests::lacks_something", "--quiet"])
                .env(INNER, "1")
                .env(MISSING, value)
                .output()
                .unwrap()
        };
        let output = run("");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        let line =
            "test tests::lacks_something ... skipped: a program is not installed (package a)";
        assert_eq!(text.lines().filter(|said| *said == line).count(), 1, "{text}");
        assert!(!text.contains("nor is another") && !text.contains("nobody"), "{text}");
        assert!(text.contains("1 passed"), "{text}");
        let output = run("fail");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!output.status.success(), "{text}");
        assert!(text.contains("missing: a program is not installed (package a)"), "{text}");
    }
}
