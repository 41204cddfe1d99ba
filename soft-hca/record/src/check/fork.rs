//! Children of `fork` that use their parent's device. They may use its registered memory, as `fork` gives them pages
//! of their own.

use soft_hca_verbs::Refusal;

use super::{Found, Rule, source};
use crate::arguments;
use crate::entry::{Entry, Outcome, What};

/// A finding about a child, if the entry shows one.
pub(super) fn found(entry: &Entry) -> Option<Found> {
    let What::Call(call) = &entry.what else { return None };
    let name = &call.name;
    let what = match &call.result {
        Outcome::Refused { reason: Some(Refusal::ChildOfFork), .. } => {
            format!("{name} was called in a child of fork, and refused")
        }
        Outcome::Done(_) if arguments::number(&call.args, "child").is_some() => {
            format!("{name} was called in a child of fork")
        }
        _ => return None,
    };
    Some(Found {
        rule: Rule::Fork,
        process: entry.process,
        place: name.clone(),
        what,
        t: entry.t,
        source: source(entry),
    })
}
