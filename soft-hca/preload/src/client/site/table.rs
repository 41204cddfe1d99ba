//! Addresses and places that are known. What stands in here stays: who looks waits for nobody.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::code::{self, Whose};

use crate::client::of_process::OfProcess;

/// Addresses that are known.
const ADDRESSES: usize = 4096;
/// Places that are known.
const PLACES: usize = 4096;
/// So many entries behind its own are looked at for each.
const PROBES: usize = 32;

/// An address whose code is known.
struct Address {
    /// 0 for none.
    address: AtomicU64,
    /// One of those below, or where the file of the program begins.
    whose: AtomicU64,
    /// See [`Code::calls`].
    calls: AtomicU64,
}

/// The code at an address behind a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub whose: Whose,
    /// The library's function that the call before it calls, if its instruction tells; 0 otherwise.
    pub calls: usize,
}

const OURS: u64 = 1;
const LIBRARY: u64 = 2;

static KNOWN: [Address; ADDRESSES] = [const {
    Address { address: AtomicU64::new(0), whose: AtomicU64::new(0), calls: AtomicU64::new(0) }
}; ADDRESSES];

/// Taken to enter an address.
static ENTERING: OfProcess<()> = OfProcess::new();

/// A place that is known.
struct Entry {
    /// Its key, 0 for none.
    key: AtomicU64,
    /// The process and the recording that were told last what it is.
    told: AtomicU64,
}

static TOLD: [Entry; PLACES] =
    [const { Entry { key: AtomicU64::new(0), told: AtomicU64::new(0) } }; PLACES];

fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value ^ value >> 29
}

/// The indices of a table where something may be.
fn probes(key: u64, length: usize) -> impl Iterator<Item = usize> {
    (0..PROBES).map(move |probe| (mix(key) as usize).wrapping_add(probe) % length)
}

/// The code at an address; `None` if no file has it.
pub(super) fn code(address: usize) -> Option<Code> {
    let key = address as u64;
    let mut places = probes(key, ADDRESSES).map(|index| &KNOWN[index]);
    let mine = places.find(|known| [0, key].contains(&known.address.load(Acquire)));
    match mine.filter(|known| known.address.load(Acquire) == key) {
        Some(known) => Some(Code {
            whose: match known.whose.load(Relaxed) {
                OURS => Whose::Ours,
                LIBRARY => Whose::Library,
                begins => Whose::Program(begins as usize),
            },
            calls: known.calls.load(Relaxed) as usize,
        }),
        None => {
            let whose = code::whose(address)?;
            let called = match whose {
                Whose::Program(_) => code::called(address),
                _ => None,
            };
            let called = called.filter(|to| code::whose(*to) == Some(Whose::Library));
            let found = Code { whose, calls: called.unwrap_or_default() };
            enter(key, found);
            Some(found)
        }
    }
}

#[cold]
fn enter(key: u64, code: Code) {
    // Another thread that enters one, or this one in a signal's handler, is not waited for.
    let Some(_entering) = ENTERING.try_lock() else { return };
    let mut places = probes(key, ADDRESSES).map(|index| &KNOWN[index]);
    let Some(free) = places.find(|known| known.address.load(Acquire) == 0) else { return };
    let word = match code.whose {
        Whose::Ours => OURS,
        Whose::Library => LIBRARY,
        Whose::Program(begins) => begins as u64,
    };
    free.whose.store(word, Relaxed);
    free.calls.store(code.calls as u64, Relaxed);
    free.address.store(key, Release);
}

/// A place that is known.
pub(super) struct Place {
    /// From 1.
    pub number: u32,
    entry: &'static Entry,
}

/// The place from where a function is called by a chain of callers; `None` if there is no room for more.
pub(super) fn place(callers: &[usize], function: usize) -> Option<Place> {
    let words = callers.iter().copied().chain([function]);
    let key = words.fold(callers.len() as u64, |key, word| mix(key ^ word as u64)).max(1);
    probes(key, PLACES).find_map(|index| {
        let entry = &TOLD[index];
        let found = entry.key.load(Acquire);
        let is_mine = found == key
            || found == 0
                && entry
                    .key
                    .compare_exchange(0, key, AcqRel, Acquire)
                    .map_or_else(|now| now == key, |_| true);
        is_mine.then_some(Place { number: index as u32 + 1, entry })
    })
}

impl Place {
    /// Whether it is to be told what it is: the first time in a recording of a process.
    pub(super) fn begins(&self, recording: u64) -> bool {
        let told = &self.entry.told;
        told.load(Relaxed) != recording && told.swap(recording, Relaxed) != recording
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_keeps_its_number_and_is_told_once_for_each_recording() {
        let first = place(&[0x1000, 0x2000], 0x3000).unwrap();
        assert!(first.begins(1) && !first.begins(1) && first.begins(2));
        let again = place(&[0x1000, 0x2000], 0x3000).unwrap();
        assert_eq!(again.number, first.number);
        assert!(!again.begins(2));
        let others = [(&[0x1000, 0x2000][..], 0x3008), (&[0x1000], 0x3000), (&[0x2000, 0x1000], 0)];
        let mut numbers = others.map(|(callers, to)| place(callers, to).unwrap().number).to_vec();
        numbers.push(first.number);
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 4);
    }

    #[test]
    fn an_address_is_looked_up_once() {
        let function = libc::getppid as *const () as usize;
        assert!(!KNOWN.iter().any(|known| known.address.load(Acquire) == function as u64));
        let first = code(function);
        assert!(matches!(first, Some(Code { whose: Whose::Program(_), calls: 0 })));
        assert!(KNOWN.iter().any(|known| known.address.load(Acquire) == function as u64));
        assert_eq!((code(function), code(16)), (first, None));
    }
}
