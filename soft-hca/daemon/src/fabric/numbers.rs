//! Numbers of objects that are not those of their entries.

use soft_hca_core::arena::{self, KEY_BASES, MAX_MRS, MAX_QPS, PORT_LEASES, QPN_ROUNDS, lease_of};
use soft_hca_core::errno::{Errno, Refusal, Result, ensure};

pub(super) const FULL: Errno = Errno::ENOMEM.because(Refusal::FabricFull);

/// The numbers of queue pairs (see [`arena::qpn`]): one comes again when all entries of its lease have
/// had all of theirs.
#[derive(Debug)]
pub(super) struct QpNumbers {
    pub(super) base: u32,
    /// Of each lease: the round, and the entry that was taken last.
    leases: [(u32, Option<usize>); PORT_LEASES],
}

impl QpNumbers {
    /// Numbers that begin where `start` says.
    pub(super) fn new(start: u64) -> Self {
        let round = (start >> 32) as u32 % QPN_ROUNDS;
        Self { base: start as u32 % MAX_QPS as u32, leases: [(round, None); PORT_LEASES] }
    }

    /// The number of an entry that has just been taken.
    pub(super) fn take(&mut self, index: usize) -> u32 {
        let (round, last) = &mut self.leases[lease_of(index)];
        if last.replace(index).is_some_and(|last| index <= last) {
            *round = (*round + 1) % QPN_ROUNDS;
        }
        arena::qpn(index, *round, self.base)
    }

    /// The entry that has, or had, a number.
    pub(super) fn index(&self, qpn: u32) -> Option<usize> {
        arena::qp_index(qpn, self.base)
    }
}

/// The keys of memory regions and windows (see [`arena::key`]). Nobody guesses them: their base is
/// random, and so is the variant of each, which is another one than the last of its entry.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) base: u32,
    /// The last variant of each entry.
    variants: Box<[u8]>,
}

impl Keys {
    /// Keys whose base is chosen by `start`.
    pub(super) fn new(start: u64) -> Self {
        let base = (start % u64::from(KEY_BASES)) as u32;
        Self { base, variants: vec![0; MAX_MRS].into_boxed_slice() }
    }

    /// The key of an entry that has just been taken; `random` chooses the variant (`rxe_get_next_key`).
    pub(super) fn take(&mut self, index: usize, random: u64) -> u32 {
        let variant = &mut self.variants[index];
        *variant = variant.wrapping_add(1 + (random % u64::from(u8::MAX)) as u8);
        arena::key(index, (*variant).into(), self.base)
    }
}

/// The first number.
const START: u32 = 1;

/// Protection domains, which are nothing but numbers.
#[derive(Debug)]
pub(super) struct Pds {
    count: u32,
    last: u32,
}

impl Default for Pds {
    fn default() -> Self {
        Self { count: 0, last: START }
    }
}

impl Pds {
    /// A number for one; `ENOMEM` if there are `max` of them.
    pub(super) fn take(&mut self, max: u32) -> Result<u32> {
        ensure(self.count < max, FULL)?;
        self.count += 1;
        self.last = next(self.last);
        Ok(self.last)
    }

    /// One has gone.
    pub(super) fn release(&mut self) {
        self.count -= 1;
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn count(&self) -> u32 {
        self.count
    }
}

/// Numbers that tell one use of an entry from the next.
#[derive(Debug)]
pub(super) struct Generations(u32);

impl Default for Generations {
    fn default() -> Self {
        Self(START)
    }
}

impl Generations {
    pub(super) fn take(&mut self) -> u32 {
        self.0 = next(self.0);
        self.0
    }
}

/// The number after another one, never 0.
fn next(number: u32) -> u32 {
    number.wrapping_add(1).max(1)
}
