//! The outcome of a call on a descriptor.

use soft_hca_core::errno::{Errno, Refusal};

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done: so many bytes.
    Done(usize),
    /// There is nothing yet: wait until the descriptor is readable, then ask again.
    Wait,
}

/// A command of another process than the one that has opened the device file: a child of `fork`.
pub(super) const OF_PARENT: Errno = Errno::EACCES.because(Refusal::ChildOfFork);
