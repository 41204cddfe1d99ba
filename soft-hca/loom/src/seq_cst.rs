//! Atomics for `SeqCst`, which loom takes for `AcqRel`. Its fences it knows: with one before each
//! access that is `SeqCst`, as compilers do it for processors that have no such instructions, these
//! are in one order. What is less than `SeqCst` and follows may still be early.

use loom::sync::atomic::Ordering::{self, AcqRel, Acquire, Release, SeqCst};
use loom::sync::atomic::fence;

/// A fence, if an access needs one.
fn fence_for(order: Ordering) {
    if order == SeqCst {
        fence(SeqCst);
    }
}

/// The ordering that loom is to take it for.
fn known(order: Ordering, instead: Ordering) -> Ordering {
    if order == SeqCst { instead } else { order }
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        /// One of loom's, with fences.
        #[derive(Debug, Default)]
        pub struct $name(loom::sync::atomic::$name);

        impl $name {
            /// Reads it.
            pub fn load(&self, order: Ordering) -> $value {
                fence_for(order);
                self.0.load(known(order, Acquire))
            }

            /// Writes it.
            pub fn store(&self, value: $value, order: Ordering) {
                fence_for(order);
                self.0.store(value, known(order, Release));
            }

            /// Writes it, and gives what it was.
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                fence_for(order);
                self.0.swap(value, known(order, AcqRel))
            }

            /// Sets bits, and gives what it was.
            pub fn fetch_or(&self, bits: $value, order: Ordering) -> $value {
                fence_for(order);
                self.0.fetch_or(bits, known(order, AcqRel))
            }

            /// Writes it if it is what it is thought to be.
            ///
            /// # Errors
            ///
            /// As the standard library's.
            pub fn compare_exchange(
                &self,
                from: $value,
                to: $value,
                order: Ordering,
                failed: Ordering,
            ) -> Result<$value, $value> {
                fence_for(order);
                self.0.compare_exchange(from, to, known(order, AcqRel), failed)
            }
        }
    };
}

atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
