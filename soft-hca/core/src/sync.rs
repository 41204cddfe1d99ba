//! Atomics, and what one does while one waits, for the files that `soft-hca/loom` compiles once
//! more with others in their place.

pub(crate) use std::{hint, thread};

/// Atomics that are used with `SeqCst`, which loom does not know.
pub(crate) mod seq_cst {
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64};
}

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}
