//! The rings that the rxe provider maps: `rxe_queue.c` of the kernel.

mod queue;

pub(crate) use queue::{Ring, Slot, bytes};
