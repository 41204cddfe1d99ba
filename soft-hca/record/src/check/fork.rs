//! Children of `fork`: what they do with their parent's device. Its registered memory is theirs as well, in pages of
//! their own, as `fork` copies them.

use super::{Found, Rule, source};
use crate::arguments;
use crate::entry::{Entry, Outcome, What};

/// What an entry says of a child.
pub(super) fn found(entry: &Entry) -> Option<Found> {
    let What::Call(call) = &entry.what else { return None };
    let name = &call.name;
    let what = match &call.result {
        Outcome::Refused { reason: Some(reason), .. } if reason.starts_with("a child of fork") => {
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
