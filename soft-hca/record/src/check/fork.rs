//! Children of `fork`.

use std::collections::HashMap;

use super::{Found, Rule, done, source};
use crate::arguments;
use crate::entry::{Call, Entry, Outcome, What};
use crate::value::Name;

/// Of each process its regions, and when they were registered.
#[derive(Debug, Default)]
pub(super) struct Fork(HashMap<u32, HashMap<Name, u64>>);

impl Fork {
    pub(super) fn entry(&mut self, entry: &Entry, found: &mut Vec<Found>) {
        match &entry.what {
            What::Call(call) => found.extend(self.call(entry, call)),
            What::ProcessEnded { .. } => _ = self.0.remove(&entry.process),
            _ => {}
        }
    }

    fn call(&mut self, entry: &Entry, call: &Call) -> Option<Found> {
        let regions = self.0.entry(entry.process).or_default();
        let (place, what) = match (call.name.as_str(), &call.result) {
            (name, Outcome::Refused { reason: Some(reason), .. })
                if reason.starts_with("a child of fork") =>
            {
                (name, format!("{name} was called in a child of fork, and refused"))
            }
            ("fork", _) => {
                let before = regions.values().filter(|t| **t < entry.t).count();
                let status = arguments::text(&call.args, "fork_status");
                let is_safe = before == 0 || status != Some("IBV_FORK_DISABLED");
                if is_safe {
                    return None;
                }
                let before = match before {
                    1 => "a registered region".into(),
                    many => format!("{many} registered regions"),
                };
                let what = format!(
                    "a child has the memory of {before}, too, and the program goes on; \
                     nobody has called ibv_fork_init"
                );
                ("fork", what)
            }
            (name, Outcome::Done(_)) if arguments::number(&call.args, "child").is_some() => {
                (name, format!("{name} was called in a child of fork"))
            }
            _ => {
                if let Some((args, given)) = done(call) {
                    let mr = |values| arguments::name(values, "mr");
                    match (call.name.as_str(), mr(args), mr(given)) {
                        ("ibv_dereg_mr", Some(mr), _) => _ = regions.remove(&mr),
                        (name, _, Some(mr)) if name.starts_with("ibv_reg_mr") => {
                            _ = regions.insert(mr, entry.t);
                        }
                        _ => {}
                    }
                }
                return None;
            }
        };
        Some(Found {
            rule: Rule::Fork,
            process: entry.process,
            place: place.into(),
            what,
            t: entry.t,
            source: source(entry),
        })
    }
}
