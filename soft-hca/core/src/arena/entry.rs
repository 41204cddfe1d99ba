//! Entries of the arena's tables: taken again, one is as if it had never been used.

use std::sync::atomic::Ordering::Release;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use crate::arena::lock::{Lock, LockApart};

/// A field of an entry.
pub(super) trait Field {
    /// Makes it as it is in an entry that was never used.
    fn reset(&self);

    /// The words that a program can write to.
    fn words(&self) -> Vec<Word<'_>>;
}

/// A word of an entry.
#[derive(Clone, Copy, Debug)]
pub enum Word<'a> {
    /// Of a GID.
    Byte(&'a AtomicU8),
    /// Of 32 bits.
    Word(&'a AtomicU32),
    /// Of 64 bits.
    Long(&'a AtomicU64),
}

impl Word<'_> {
    /// Writes as many bits as there are.
    pub fn store(self, value: u64) {
        match self {
            Self::Byte(byte) => byte.store(value as u8, Release),
            Self::Word(word) => word.store(value as u32, Release),
            Self::Long(long) => long.store(value, Release),
        }
    }
}

/// A lock stays as it is: it may be taken at any time, by a thread that then checks whether the entry is still the same.
impl Field for Lock {
    fn reset(&self) {}

    fn words(&self) -> Vec<Word<'_>> {
        Vec::new()
    }
}

impl Field for LockApart {
    fn reset(&self) {}

    fn words(&self) -> Vec<Word<'_>> {
        Vec::new()
    }
}

impl Field for AtomicU32 {
    fn reset(&self) {
        self.store(0, Release);
    }

    fn words(&self) -> Vec<Word<'_>> {
        vec![Word::Word(self)]
    }
}

impl Field for AtomicU64 {
    fn reset(&self) {
        self.store(0, Release);
    }

    fn words(&self) -> Vec<Word<'_>> {
        vec![Word::Long(self)]
    }
}

impl Field for AtomicU8 {
    fn reset(&self) {
        self.store(0, Release);
    }

    fn words(&self) -> Vec<Word<'_>> {
        vec![Word::Byte(self)]
    }
}

impl<F: Field, const N: usize> Field for [F; N] {
    fn reset(&self) {
        self.iter().for_each(F::reset);
    }

    fn words(&self) -> Vec<Word<'_>> {
        self.iter().flat_map(F::words).collect()
    }
}

/// An entry of one of the tables.
pub trait Entry {
    /// Makes all but the locks as in an entry that was never used. For the daemon, before it
    /// fills in an entry that is to come to life.
    fn reset(&self);

    /// All words but the locks.
    fn words(&self) -> Vec<Word<'_>>;
}

/// Defines entries of tables.
macro_rules! entry {
    ($(#[$about:meta])* pub struct $name:ident {
        $($(#[$field_about:meta])* pub $field:ident: $type:ty,)*
    }) => {
        $(#[$about])*
        pub struct $name {
            $($(#[$field_about])* pub $field: $type,)*
        }

        impl $crate::arena::Entry for $name {
            fn reset(&self) {
                $($crate::arena::entry::Field::reset(&self.$field);)*
            }

            fn words(&self) -> Vec<$crate::arena::Word<'_>> {
                [$($crate::arena::entry::Field::words(&self.$field)),*].concat()
            }
        }
    };
}

pub(super) use entry;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::RingLocation;

    entry! {
        /// One field of each type.
        #[derive(Debug, Default)]
        #[allow(unreachable_pub, reason = "entries are public")]
        pub struct Each {
            pub lock: Lock,
            pub word: AtomicU32,
            pub long: AtomicU64,
            pub gid: [AtomicU8; 16],
            pub ring: RingLocation,
        }
    }

    #[test]
    fn an_entry_is_reset_whole_but_for_its_lock() {
        let entry = Each::default();
        let unused = format!("{entry:?}");
        let guard = entry.lock.lock(3, || {});
        let words = entry.words();
        assert_eq!(words.len(), 1 + 1 + 16 + 3);
        words.iter().for_each(|word| word.store(0xa5a5_a5a5_a5a5_a5a5));
        assert!(!format!("{entry:?}").contains(" 0"), "{entry:?}");
        entry.reset();
        assert_eq!(entry.lock.owner(), Some(3));
        drop(guard);
        assert_eq!(format!("{entry:?}"), unused);
    }
}
