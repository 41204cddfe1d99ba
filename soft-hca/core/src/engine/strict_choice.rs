//! The choices of queue pairs whose programs are run strictly.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use soft_hca_verbs::{Choice, Choices, RequestSpan};

use crate::arena::Qp;
use crate::put_off::Draws;

/// Numbers for a choice about the request at the head of a queue pair; none if the kindest answer is wanted.
pub(super) fn draws(qp: &Qp, choice: Choice) -> Option<Draws> {
    let number = qp.put_off_choices.load(Acquire);
    let requests = RequestSpan::from_bits(qp.strict_requests.load(Acquire));
    if requests.has(number) { draws_at(qp, choice, number) } else { None }
}

/// The same about a completion that has failed.
pub(super) fn draws_of_failed(qp: &Qp) -> Option<Draws> {
    draws_at(qp, Choice::Rubbish, qp.failed_completions.fetch_add(1, AcqRel))
}

fn draws_at(qp: &Qp, choice: Choice, place: u32) -> Option<Draws> {
    let choices = Choices::of_others(qp.strict_others.load(Acquire));
    let seed = qp.strict_seed.load(Acquire);
    choices.has(choice).then(|| Draws::new(seed, choice, place.into()))
}

/// Whether a queue pair's program is run strictly.
pub(super) fn is_strict(qp: &Qp) -> bool {
    qp.strict_seed.load(Acquire) != 0
}
