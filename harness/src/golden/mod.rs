//! Comparison with the transcripts of the C originals.
//!
//! - [`case`]: what was run and how, from `cases.json`
//! - [`normalise`]: the rules that make two runs comparable
//! - [`expect`]: what a case must print and how it must end
//! - [`varying`]: the rule for streams that no two runs print alike
//! - [`timing`]: what depends on timing beyond those rules
//! - [`measured`], [`published`]: what is masked there, held against itself
//! - [`differences`]: the cases that differ from the C by design
//! - [`rules`]: the data that say how a run is judged
//! - [`record`]: writes recordings, and what several runs have in common
//! - [`suite`]: runs the cases and reports
//! - [`share`]: several of them at the same time

pub mod case;
pub mod differences;
pub mod expect;
pub mod measured;
pub mod normalise;
mod numbers;
pub mod published;
pub mod record;
pub mod rules;
pub mod share;
pub mod suite;
pub mod timing;
pub mod varying;

use crate::run::Outcome;

/// Impossible numbers and texts of a run, whatever was recorded.
pub fn impossible(example: &str, outcome: &Outcome) -> Vec<String> {
    let mut complaints = measured::complaints(outcome);
    complaints.extend(published::complaints(example, outcome));
    complaints
}
