//! Errors.

use std::io;

use crate::area::Mismatch;
use crate::plan::Name;

/// Why the traffic has ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call of the verbs library failed.
    #[error("{0}: {1}")]
    Verbs(&'static str, #[source] io::Error),
    /// There is no device.
    #[error("there is no RDMA device")]
    NoDevice,
    /// The way to the peer by which both agree on what to do.
    #[error("cannot {0}: {1}")]
    Peer(&'static str, #[source] io::Error),
    /// The peer wants more than we do.
    #[error("the client asks for {0}")]
    Config(&'static str),
    /// A byte is wrong.
    #[error("{}: {what}: {mismatch}", place(*.name, *.round))]
    Mismatch { name: Name, round: u64, what: &'static str, mismatch: Mismatch },
    /// A completion that was not to come, or not so.
    #[error("{}: {text}", place(*.name, *.round))]
    Completion { name: Name, round: u64, text: String },
    /// A completion of no queue pair of the thread's.
    #[error("a completion of queue pair {0}, which does not exist")]
    Stranger(u32),
    /// The word that all have added to.
    #[error("the peer has added {added} to a word that began with 0 and is {found}")]
    Sum { added: u64, found: u64 },
    /// Bytes around that word.
    #[error("the memory around the word that all add to: {0}")]
    AroundSum(Mismatch),
    /// The peer is gone; what its queue pairs say.
    #[error("the peer has gone; {0}")]
    PeerGone(Obituary),
    /// A thread waits, and nothing comes.
    #[error("nothing has come for {0} s; {1}")]
    Stuck(u64, String),
    /// A thread slept beside a completion.
    #[error("there was a completion, but no event")]
    NoEvent,
    /// A request has failed as if the peer had gone.
    #[error("the peer is there, but a request ended with {0}")]
    Unanswered(String),
    /// The peer has gone, and requests to it neither end nor fail.
    #[error("the peer has gone, but not all queue pairs notice: {0}")]
    Unnoticed(String),
}

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// Which queue pair, and where it is.
pub fn place(name: Name, round: u64) -> String {
    let Name { thread, number, .. } = name;
    let shares = if name.is_shared() { ", shared receives" } else { "" };
    format!("thread {thread}, queue pair {number} ({:?}{shares}), round {round}", name.service())
}

/// The fates of the queue pairs of a peer that is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Obituary {
    /// Requests were not answered.
    pub unanswered: u32,
    /// Requests were flushed: an earlier one was not answered.
    pub flushed: u32,
    /// Unreliable ones, which do not notice.
    pub unaware: u32,
}

impl Obituary {
    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            unanswered: self.unanswered + other.unanswered,
            flushed: self.flushed + other.flushed,
            unaware: self.unaware + other.unaware,
        }
    }
}

impl std::fmt::Display for Obituary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { unanswered, flushed, unaware } = self;
        write!(
            f,
            "queue pairs: {unanswered} without an answer, {flushed} flushed, {unaware} unreliable"
        )
    }
}
