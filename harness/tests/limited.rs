//! Programs of tests that get signals: they begin with the default action of every signal, and have a limit.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The time that any step of a program may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A command for a program. A signal that the tests' own process ignores, as SIGHUP under `nohup`, would be ignored by
/// the program as well, and a shell sets no trap for such a signal.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal").arg(program);
    command
}

/// Waits until a child whose standard output is a pipe has written a line with a text.
pub fn wait_for_line(child: &mut Child, text: &str) {
    let (sender, lines) = mpsc::channel();
    let output = BufReader::new(child.stdout.take().unwrap());
    // Reads on until the child has ended, which never waits for a reader so.
    thread::spawn(move || {
        output.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
    });
    let end = Instant::now() + LIMIT;
    let next = || lines.recv_timeout(end.saturating_duration_since(Instant::now()));
    while let Ok(line) = next() {
        if line.contains(text) {
            return;
        }
    }
    let _ = child.kill();
    panic!("no line says {text:?} within {LIMIT:?}");
}

/// Waits for a child's end; gives its exit status, or none if a signal has ended it.
pub fn status(child: &mut Child) -> Option<i32> {
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    panic!("process {} does not end within {LIMIT:?}", child.id());
}
