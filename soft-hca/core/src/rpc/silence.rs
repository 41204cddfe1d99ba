//! Daemons that do not answer: how long a client waits before it says so, and its message.

use std::fs;
use std::time::{Duration, Instant};

use super::socket::{Connection, PATIENCE};

/// The same for a daemon that would answer if it had the processor.
const PATIENCE_WITH_BUSY: Duration = Duration::from_secs(5);

/// A wait for an answer.
#[derive(Clone, Copy, Debug)]
pub struct Silence(Instant);

impl Silence {
    /// Begins to wait.
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// The reason why there is no answer, if it takes too long; `connection` is the daemon's, if it
    /// has accepted one.
    pub fn why(self, connection: Option<&Connection>) -> Option<String> {
        let pid = connection.and_then(|connection| Some(connection.peer().ok()?.0));
        why(pid, pid.and_then(state), self.0.elapsed())
    }
}

fn why(pid: Option<u32>, state: Option<char>, waited: Duration) -> Option<String> {
    let patience = if matches!(state, Some('R' | 'D')) { PATIENCE_WITH_BUSY } else { PATIENCE };
    if waited < patience {
        return None;
    }
    let process = pid.map_or(String::new(), |pid| format!(" (process {pid})"));
    Some(match state {
        Some('T' | 't') => format!("its daemon{process} is stopped: SIGCONT has it go on"),
        _ => format!("its daemon{process} does not answer"),
    })
}

/// The state of a process (proc(5), `stat`).
fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_stopped_is_named() {
        let second = Duration::from_secs(1);
        let said = |state, waited| why(Some(7), state, waited);
        assert_eq!(said(Some('T'), second / 2), None);
        let stopped = "its daemon (process 7) is stopped: SIGCONT has it go on";
        assert_eq!(said(Some('T'), second).as_deref(), Some(stopped));
        let silent = Some("its daemon (process 7) does not answer");
        assert_eq!(said(Some('S'), second).as_deref(), silent);
        assert_eq!(said(Some('R'), second), None);
        assert_eq!(said(Some('R'), 5 * second).as_deref(), silent);
        assert_eq!(why(None, None, second).as_deref(), Some("its daemon does not answer"));
        // The state is of the process's first thread, which runs the tests, and may wait for them.
        assert!(matches!(state(std::process::id()), Some('R' | 'S')));
    }
}
