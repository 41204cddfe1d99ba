//! Something that went wrong, and its text.

use std::sync::Arc;

use crate::place::Place;
use crate::time::seconds;

/// The role of a problem among others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    /// Nothing.
    #[default]
    Alone,
    /// Others may follow from it.
    Cause,
    /// It follows from one before, if that is known.
    Consequence,
    /// A request that has waited until it could not be executed any more.
    Waited {
        ns: u64,
        /// Its wait was reported.
        is_told: bool,
    },
}

/// The objects that a problem is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct About {
    /// Queue pairs that it concerns, its own first.
    pub(super) qps: Vec<u32>,
    /// A completion queue.
    pub(super) cq: Option<u32>,
    pub(super) role: Role,
}

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// When, as in [`Entry::t`](crate::Entry::t); of what waits, since when.
    pub t: u64,
    /// The process, as in [`Entry::process`](crate::Entry::process).
    pub process: u32,
    /// The failure, in a line.
    pub what: String,
    /// Which check, on which side, with the values compared.
    pub why: String,
    /// Its usual cause.
    pub cause: String,
    /// How often it has happened, where several are told as one.
    pub times: u64,
    /// When it has happened for the last time.
    pub last: u64,
    /// Its consequences, in a line each.
    pub then: Vec<String>,
    /// Where the program has called for it, if that is known.
    pub source: Option<Arc<Place>>,
    /// A thread is blocked; nothing has failed.
    pub is_hang: bool,
    pub(super) about: About,
}

impl Problem {
    pub(super) fn new((t, process): (u64, u32), what: String, why: String, cause: &str) -> Self {
        let (cause, about) = (cause.into(), About::default());
        Self {
            t,
            process,
            what,
            why,
            cause,
            times: 1,
            last: t,
            then: Vec::new(),
            source: None,
            is_hang: false,
            about,
        }
    }

    /// The failure, and how often.
    pub(super) fn headline(&self) -> String {
        let Self { what, times, last, .. } = self;
        match times {
            1 => what.clone(),
            times => format!("{what}, {times} times, at last at {}", seconds(*last)),
        }
    }

    /// In three lines, one more for the place in the source, and one for all that has followed from it.
    pub fn text(&self) -> String {
        let Self { why, cause, .. } = self;
        let (at, what) = (seconds(self.t), self.headline());
        let mut text = format!("{at}, {what}\n    why: {why}\n    usual cause: {cause}\n");
        text.extend(self.source.iter().map(|source| format!("    in {source}\n")));
        text.extend(self.then.iter().map(|then| format!("    then: {then}\n")));
        text
    }
}
