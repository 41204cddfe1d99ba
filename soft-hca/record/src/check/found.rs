//! Findings of the rules, and the questions about entries that all of them have.

use std::sync::Arc;

use super::rule::Rule;
use crate::entry::{Call, Entry, Outcome};
use crate::place::Place;
use crate::value::Named;

/// A finding, as one entry, or the end of the record, shows it.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) rule: Rule,
    pub(super) process: u32,
    pub(super) place: String,
    pub(super) what: String,
    pub(super) t: u64,
    pub(super) source: Option<Arc<Place>>,
}

/// Where the program has called for what an entry tells.
pub(super) fn source(entry: &Entry) -> Option<Arc<Place>> {
    entry.site.as_ref()?.place.clone()
}

/// The arguments and the results of a call that has succeeded.
pub(super) fn done(call: &Call) -> Option<(&[Named], &[Named])> {
    match &call.result {
        Outcome::Done(given) => Some((&call.args, given)),
        Outcome::Refused { .. } => None,
    }
}
