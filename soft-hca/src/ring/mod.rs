//! The rings that the rxe provider maps: `rxe_queue.c` of the kernel.

mod queue;

pub use queue::{HEADER_BYTES, Ring, Slot, bytes};
