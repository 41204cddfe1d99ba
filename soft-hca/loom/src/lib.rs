//! Files of soft-hca that processes share memory by, compiled with loom's atomics: the tests here
//! try every interleaving of a few threads, and every value that a load may see.

pub mod seq_cst;

mod sync {
    pub(crate) use crate::seq_cst;
    pub(crate) use loom::{hint, thread};

    pub(crate) mod atomic {
        pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    }
}

#[path = "../../core/src/engine/arming.rs"]
pub mod arming;
#[path = "../../core/src/engine/bounce_phase.rs"]
pub mod bounce_phase;
#[path = "../../core/src/arena/doorbell.rs"]
pub mod doorbell;
#[path = "../../core/src/arena/lock.rs"]
#[allow(dead_code, reason = "the library uses more of it")]
pub mod lock;
#[path = "../../core/src/arena/recording.rs"]
pub mod recording;
#[path = "../../core/src/engine/reservation.rs"]
pub mod reservation;
#[path = "../../core/src/engine/staging.rs"]
pub mod staging;
