//! The choices of queue pairs whose programs are run strictly.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use crate::arena::Qp;
use crate::put_off;

/// The next choice of a queue pair: a number below a limit.
pub(super) fn choose(qp: &Qp, limit: u64) -> u64 {
    let number = qp.put_off_choices.fetch_add(1, AcqRel);
    put_off::choice(qp.strict_seed.load(Acquire), number.into(), limit)
}

/// Whether a queue pair's program is run strictly.
pub(super) fn is_strict(qp: &Qp) -> bool {
    qp.strict_seed.load(Acquire) != 0
}
