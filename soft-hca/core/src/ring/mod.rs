//! The rings that the rxe provider maps: `rxe_queue.c` of the kernel.

pub mod queue;

pub use queue::{Ring, Slot, bytes};
