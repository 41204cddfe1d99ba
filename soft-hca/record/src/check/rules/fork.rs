//! Children of `fork` that use their parent's device. They may use its registered memory, as `fork` gives them pages
//! of their own.

use soft_hca_verbs::Refusal;

use crate::arguments::number;
use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::{Outcome, What};

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "what was opened is the process's that has opened it: a kernel refuses a child's commands, and what it takes from \
         a queue its parent does not see",
    cure: "open the device in the child",
};

#[derive(Debug, Default)]
pub(in crate::check) struct Fork;

impl Lookout for Fork {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        let What::Call(call) = &scene.entry.what else { return };
        let name = &call.name;
        let what = match &call.result {
            Outcome::Refused { reason: Some(Refusal::ChildOfFork), .. } => {
                format!("{name} was called in a child of fork, and refused")
            }
            Outcome::Done(_) if number(&call.args, "child").is_some() => {
                format!("{name} was called in a child of fork")
            }
            _ => return,
        };
        found.push(scene.finds(Rule::Fork, name.clone(), what));
    }
}
