//! Children of this process, which has one thread.
#![allow(unsafe_code, reason = "fork")]

use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;

use crate::side::{Error, Result, check};

/// A child.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    /// When this goes, a child that waits for it ends.
    lives: UnixStream,
}

/// Makes a child that does something, and then ends; if it is to wait, when it is told to.
pub fn fork(waits: bool, does: impl FnOnce() -> Result<()>) -> Result<Child> {
    let (mut waiting, lives) = UnixStream::pair().map_err(|error| Error("socketpair", error))?;
    // SAFETY: there is one thread, so the child may do what this process may.
    let pid = unsafe { libc::fork() };
    check(pid >= 0, "fork")?;
    if pid > 0 {
        return Ok(Child { pid, lives });
    }
    drop(lives);
    let done = does().and_then(|()| if waits { until_told(&mut waiting) } else { Ok(()) });
    if let Err(error) = &done {
        eprintln!("soft-hca-mistakes: {error}");
    }
    std::process::exit(i32::from(done.is_err()))
}

fn until_told(waiting: &mut UnixStream) -> Result<()> {
    waiting.read(&mut [0]).map(|_| ()).map_err(|error| Error("read", error))
}

impl Child {
    /// Waits for its good end.
    pub fn end(self) -> Result<()> {
        let Self { pid, lives } = self;
        drop(lives);
        let mut status = 0;
        // SAFETY: waits for a child of this process.
        check(unsafe { libc::waitpid(pid, &raw mut status, 0) } == pid, "waitpid")?;
        check(status == 0, "a child has failed")
    }
}

/// Whether a child sleeps.
pub fn is_asleep(child: &Child) -> Result<bool> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.pid));
    let stat = stat.map_err(|error| Error("/proc", error))?;
    Ok(stat.rsplit(") ").next().is_some_and(|behind| behind.starts_with('S')))
}
