//! Deferred commands: somebody else has a lock that they need. The daemon does not wait for it, but
//! tries again, ever more rarely.

use std::mem;
use std::os::fd::OwnedFd;

use soft_hca_core::engine::Quiesce;
use soft_hca_core::errno::Result;
use soft_hca_core::rpc::Answer;

use crate::uverbs::UverbsFile;

/// The first wait before another look, in nanoseconds. It doubles each time.
const FIRST_WAIT_NS: u64 = 50_000;
/// The longest.
const LAST_WAIT_NS: u64 = 10_000_000;

/// A command that is deferred, and what else has to be done later.
#[derive(Debug)]
pub(crate) enum Deferred {
    /// A client's message that has had no effect yet, and the file's token.
    Message(u32, Vec<u8>),
    /// A command that has been executed. Its answer says that memory is not used any more.
    Answer(u32, Answered, Quiesce),
    /// A file that was closed.
    Close(UverbsFile),
    /// A process that has ended, by its index.
    Reap(usize),
    /// A file whose device is removed, by its token, and who may still be using its memory, once
    /// its objects are gone.
    Remove(u32, Option<Quiesce>),
}

/// An answer and the descriptors that go with it.
#[derive(Debug)]
pub(crate) struct Answered {
    pub answer: Result<Answer>,
    pub fds: Vec<OwnedFd>,
}

impl Default for Answered {
    fn default() -> Self {
        Ok(Answer::default()).into()
    }
}

impl From<Result<Answer>> for Answered {
    fn from(answer: Result<Answer>) -> Self {
        Self { answer, fds: Vec::new() }
    }
}

/// All that are deferred.
#[derive(Debug, Default)]
pub(crate) struct DeferredCommands(Vec<Waiting>);

/// Each with when it is due, and how long it has waited last.
#[derive(Debug)]
struct Waiting {
    command: Deferred,
    due_ns: u64,
    wait_ns: u64,
}

impl DeferredCommands {
    /// Keeps what could not be done just now; `waited` is how long it has waited before, if it has.
    pub(crate) fn add(&mut self, command: Deferred, waited: Option<u64>, now_ns: u64) {
        let wait_ns = waited.map_or(FIRST_WAIT_NS, |waited| (2 * waited).min(LAST_WAIT_NS));
        self.0.push(Waiting { command, due_ns: now_ns.saturating_add(wait_ns), wait_ns });
    }

    /// When to look next.
    pub(crate) fn next(&self) -> Option<u64> {
        self.0.iter().map(|waiting| waiting.due_ns).min()
    }

    /// Takes what is due, with how long each has waited last.
    pub(crate) fn due(&mut self, now_ns: u64) -> Vec<(Deferred, u64)> {
        let all = mem::take(&mut self.0).into_iter();
        let (due, later): (Vec<_>, Vec<_>) = all.partition(|waiting| waiting.due_ns <= now_ns);
        self.0 = later;
        due.into_iter().map(|waiting| (waiting.command, waiting.wait_ns)).collect()
    }

    /// Whether a file's command waits.
    pub(crate) fn has(&self, token: u32) -> bool {
        self.0.iter().any(|waiting| waiting.command.is_of(token))
    }

    /// Forgets a file's command: the file is closed.
    pub(crate) fn forget(&mut self, token: u32) {
        self.0.retain(|waiting| !waiting.command.is_of(token));
    }
}

impl Deferred {
    fn is_of(&self, file: u32) -> bool {
        matches!(self, Self::Message(token, _) | Self::Answer(token, ..) if *token == file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rarer_and_nothing_is_lost() {
        let mut deferred = DeferredCommands::default();
        deferred.add(Deferred::Reap(1), None, 0);
        deferred.add(Deferred::Message(7, vec![]), None, 1000);
        assert_eq!(deferred.next(), Some(FIRST_WAIT_NS));
        assert!(deferred.due(FIRST_WAIT_NS - 1).is_empty());
        let mut now = FIRST_WAIT_NS;
        for times in 1..20 {
            let [(Deferred::Reap(1), waited)] = &deferred.due(now)[..] else {
                panic!("{deferred:?}")
            };
            let waited = *waited;
            assert_eq!(waited, (FIRST_WAIT_NS << (times - 1)).min(LAST_WAIT_NS));
            deferred.add(Deferred::Reap(1), Some(waited), now);
            deferred.0.retain(|waiting| matches!(waiting.command, Deferred::Reap(_)));
            now = deferred.next().unwrap();
        }
    }

    #[test]
    fn a_file_that_is_closed_waits_for_nothing() {
        let mut deferred = DeferredCommands::default();
        deferred.add(Deferred::Message(7, vec![]), None, 0);
        deferred.add(Deferred::Reap(7), None, 0);
        assert!(deferred.has(7) && !deferred.has(8));
        deferred.forget(7);
        assert!(!deferred.has(7));
        assert_eq!(deferred.due(u64::MAX).len(), 1);
    }
}
