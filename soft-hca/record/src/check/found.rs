//! What a rule finds, and what all of them ask of entries.

use std::sync::Arc;

use super::rule::Rule;
use crate::entry::{Call, Entry, Outcome};
use crate::place::Place;
use crate::value::Named;

/// What one entry, or the end of the record, shows.
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

/// What a call that has succeeded was given and gave.
pub(super) fn done(call: &Call) -> Option<(&[Named], &[Named])> {
    match &call.result {
        Outcome::Done(given) => Some((&call.args, given)),
        Outcome::Refused { .. } => None,
    }
}
