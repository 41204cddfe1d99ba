//! The choices of queue pairs whose programs are run strictly.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use soft_hca_verbs::{Choice, NumberSpan};

use crate::arena::Qp;
use crate::put_off::Draws;

/// Numbers for a choice about the request at the head of a queue pair; none if the kindest answer is wanted.
pub(super) fn draws(qp: &Qp, choice: Choice) -> Option<Draws> {
    draws_behind(qp, 0, choice)
}

/// The same about the request so many behind the one at the head.
pub(super) fn draws_behind(qp: &Qp, distance: u32, choice: Choice) -> Option<Draws> {
    draws_at(qp, choice, qp.put_off_choices.load(Acquire).wrapping_add(distance))
}

/// The same about a completion that has failed.
pub(super) fn draws_of_failed(qp: &Qp) -> Option<Draws> {
    draws_at(qp, Choice::Rubbish, qp.failed_completions.fetch_add(1, AcqRel))
}

/// The same about the thing before which a queue pair had so many.
fn draws_at(qp: &Qp, choice: Choice, before: u32) -> Option<Draws> {
    let numbers = NumberSpan::try_from(qp.strict_choices[choice as usize].load(Acquire)).ok()?;
    let seed = qp.strict_seed.load(Acquire);
    numbers.has(before).then(|| Draws::new(seed, choice, before.into()))
}

/// Whether a queue pair's program is run strictly.
pub(super) fn is_strict(qp: &Qp) -> bool {
    qp.strict_seed.load(Acquire) != 0
}
