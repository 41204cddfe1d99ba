//! The threads of a process, from `/proc`.

use std::fs;

/// The states of all threads of a process, as proc(5) has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Threads(Vec<char>);

impl Threads {
    /// The threads of a process; none if there is no such process.
    pub(crate) fn of(pid: u32) -> Self {
        let folder = fs::read_dir(format!("/proc/{pid}/task"));
        let threads = folder.into_iter().flatten().flatten();
        let stats =
            threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
        Self(stats.filter_map(|stat| state(&stat)).collect())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether the process is stopped, by a signal or a debugger.
    pub(crate) fn are_stopped(&self) -> bool {
        self.are_all(&['T', 't'])
    }

    /// Whether all are blocked in the kernel, until something happens.
    pub(crate) fn all_sleep(&self) -> bool {
        self.are_all(&['S'])
    }

    fn are_all(&self, states: &[char]) -> bool {
        !self.0.is_empty() && self.0.iter().all(|state| states.contains(state))
    }
}

/// The state of a thread, from its `stat`. Its name may have any sign in it.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_threads() {
        assert_eq!(state("7 (a) R (b)) S 1 7 7"), Some('S'));
        assert_eq!(state(""), None);
        let threads = |states: &str| Threads(states.chars().collect());
        assert!(threads("SS").all_sleep() && !threads("SR").all_sleep());
        assert!(threads("Tt").are_stopped() && !threads("TS").are_stopped());
        assert_eq!((threads("SR").count(), threads("").count()), (2, 0));
        assert!(!threads("").all_sleep() && !threads("").are_stopped());
        // This one runs.
        let own = Threads::of(std::process::id());
        assert!(!own.0.is_empty() && !own.all_sleep(), "{own:?}");
        assert_eq!(Threads::of(0), Threads(Vec::new()));
    }
}
