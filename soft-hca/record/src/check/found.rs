//! The view that rules have of a run, and their findings.

use std::fmt;
use std::sync::Arc;

use super::rule::Rule;
use crate::entry::{Call, Entry, Outcome, What};
use crate::model::{Effect, Run};
use crate::place::Place;
use crate::value::Named;

/// The device of a run.
#[derive(Debug)]
pub(super) struct Device {
    /// The adapter whose limits it has, if it has some.
    pub(super) adapter: Option<String>,
    /// It has no atomic operations.
    pub(super) lacks_atomics: bool,
    /// Entries of the largest P_Key table of its ports.
    pub(super) pkeys: u16,
}

/// An entry, and the state of the run behind it.
#[derive(Clone, Copy)]
pub(super) struct Scene<'r> {
    pub(super) entry: &'r Entry,
    pub(super) effect: &'r Effect,
    pub(super) run: &'r Run,
    pub(super) device: &'r Device,
}

/// A rule as it follows a record.
pub(super) trait Lookout: fmt::Debug {
    /// An entry.
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>);

    /// The record ends.
    fn end(&mut self, _run: &Run, _found: &mut Vec<Found>) {}

    /// Whether nothing can be said where entries are missing.
    fn needs_all(&self) -> bool {
        false
    }
}

/// A finding, as one entry, or the end of the record, shows it.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) rule: Rule,
    pub(super) process: u32,
    pub(super) place: String,
    pub(super) what: String,
    pub(super) t: u64,
    pub(super) source: Option<Arc<Place>>,
    /// It counts only if the polls of its process are on record.
    pub(super) needs_polls: bool,
}

impl<'r> Scene<'r> {
    /// A finding about an object, at the entry's time and place.
    pub(super) fn finds(self, rule: Rule, place: String, what: String) -> Found {
        let Entry { t, process, .. } = *self.entry;
        let source = self.effect.source.clone();
        Found { rule, process, place, what, t, source, needs_polls: false }
    }

    /// The name, the arguments and the results of a call that has succeeded.
    pub(super) fn call(self) -> Option<(&'r str, &'r [Named], &'r [Named])> {
        let What::Call(Call { name, args, result: Outcome::Done(given), .. }) = &self.entry.what
        else {
            return None;
        };
        Some((name, args, given))
    }
}
