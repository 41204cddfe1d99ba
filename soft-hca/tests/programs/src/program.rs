//! A program that runs.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::{LIMIT, comes_about, rping};

/// How often [`rping::has_raced`] was so.
static RACES: AtomicU32 = AtomicU32::new(0);

/// A program in a fabric; it is killed when it goes out of scope.
#[derive(Debug)]
pub struct Program {
    line: String,
    child: Child,
    output: PathBuf,
}

impl Program {
    /// A child that was started by this line, and writes to this file.
    pub fn new(line: &str, child: Child, output: PathBuf) -> Self {
        Self { line: line.into(), child, output }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its output so far, to standard output and standard error.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).unwrap()).into_owned()
    }

    /// The file that it writes to.
    pub fn output_file(&self) -> PathBuf {
        self.output.clone()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Its status if it ends in time.
    pub fn ends_within(&mut self, limit: Duration) -> Option<ExitStatus> {
        comes_about(limit, || self.has_ended());
        self.child.try_wait().unwrap()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        match self.ends_within(LIMIT) {
            Some(status) => status,
            None => panic!("`{}` does not end:\n{}", self.line, self.output()),
        }
    }

    /// Waits until it is ready for its peer; ending before is a failure.
    pub fn wait_until(&mut self, mut ready: impl FnMut() -> bool) {
        let came = comes_about(LIMIT, || ready() || self.has_ended());
        let is_up = came && !self.has_ended();
        assert!(is_up, "`{}` does not get ready:\n{}", self.line, self.output());
    }

    /// Waits for its good end; gives its output.
    pub fn succeed(&mut self) -> String {
        let status = self.wait();
        let output = self.output();
        if rping::has_raced(&self.line, status, &output) {
            let times = RACES.fetch_add(1, Relaxed) + 1;
            println!("`{}` has lost a race with itself, {times} in all:\n{output}", self.line);
        } else {
            assert!(status.success(), "`{}`: {status}\n{output}", self.line);
        }
        output
    }

    /// SIGKILL
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}
