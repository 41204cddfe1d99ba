//! Files of soft-hca that processes share memory by, compiled with loom's atomics: the tests here
//! try every interleaving of a few threads, and every value that a load may see.

mod sync {
    pub(crate) use loom::{hint, thread};

    pub(crate) mod atomic {
        pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};
    }
}

#[path = "../../core/src/engine/arming.rs"]
pub mod arming;
#[path = "../../core/src/engine/claims.rs"]
pub mod claims;
#[path = "../../core/src/arena/lock.rs"]
#[allow(dead_code, reason = "the library uses more of it")]
pub mod lock;
