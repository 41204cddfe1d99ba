//! Processes whose end is not on record yet: the daemon notices it when their files are closed, which comes after
//! their memory was given back.

use std::fs;
use std::path::Path;

/// `PF_EXITING` of `include/linux/sched.h`, in the flags of `/proc/PID/stat`.
const EXITING: u64 = 4;
/// Behind the name in `/proc/PID/stat`: the state comes first.
const FLAGS: usize = 6;

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// It runs, or is blocked.
    Lives,
    /// It was killed, or exits, and has its files still.
    Dies,
    /// Its files are closed.
    Gone,
}

/// The state of the process with a number.
pub(super) fn life(pid: u32) -> Life {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Life::Gone };
    let all: Vec<Life> = threads.flatten().map(|thread| of_thread(&thread.path())).collect();
    let is_any = |life| all.contains(&life);
    match (is_any(Life::Lives), is_any(Life::Dies)) {
        (true, _) => Life::Lives,
        (_, true) => Life::Dies,
        _ => Life::Gone,
    }
}

fn of_thread(folder: &Path) -> Life {
    let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
    // The name may have any sign in it.
    let Some((_, behind)) = stat.rsplit_once(')') else { return Life::Gone };
    let words: Vec<&str> = behind.split_whitespace().collect();
    if matches!(words.first(), Some(&("Z" | "X"))) {
        return Life::Gone;
    }
    let flags: u64 = words.get(FLAGS).and_then(|flags| flags.parse().ok()).unwrap_or(0);
    let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
    if flags & EXITING != 0 || is_killed(&status) { Life::Dies } else { Life::Lives }
}

/// Whether SIGKILL is pending, for the thread or its process.
fn is_killed(status: &str) -> bool {
    let pending = status.lines().filter_map(|line| {
        let set = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(set.trim(), 16).ok()
    });
    pending.into_iter().any(|set| set >> (libc::SIGKILL - 1) & 1 != 0)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn lives_and_ends() {
        assert_eq!(life(std::process::id()), Life::Lives);
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert_eq!(life(child.id()), Life::Lives);
        child.kill().unwrap();
        // Then it is a zombie until it is waited for.
        while life(child.id()) != Life::Gone {
            std::thread::yield_now();
        }
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(life(pid), Life::Gone);
    }

    #[test]
    fn who_is_killed() {
        assert!(is_killed("Name:\tx\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n"));
        assert!(is_killed("SigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n"));
        assert!(!is_killed("SigPnd:\t0000000000000200\nShdPnd:\t0000000000000000\n"));
    }
}
