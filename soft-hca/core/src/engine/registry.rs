//! Memory regions and processes, as this process has learned of them itself.
//!
//! Every program of a fabric can write the arena's tables. The daemon and closed programs copy on
//! behalf of others: for a program that forges an entry there they would copy memory that it may
//! not reach itself. So they look here before such a copy, in memory that no other process can
//! write. The daemon enters the regions that programs command it to register, a closed program its
//! own.
//!
//! A copy holds the regions that it uses ([`Registry::hold`]) until it is over. A region that is
//! deregistered meanwhile cannot be found any more, and its memory is the program's again when no
//! copy holds it ([`Retired`]).

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::arena::key_index;
use crate::engine::segments::{Memory, Region, Segment};
use crate::uapi::verbs::access;

/// The access that a scatter list needs.
pub(super) const SCATTER: u32 = access::LOCAL_WRITE;
/// The access that a gather list needs: none, since an owner can read any memory that it registers.
pub(super) const GATHER: u32 = 0;

/// The memory regions and processes that this process has to know.
#[derive(Debug)]
pub struct Registry {
    /// The process that it is about; `None` if it is about all of them.
    of: Option<usize>,
    /// The base of keys (`Arena::key_base`), which others can change in the arena.
    key_base: u32,
    /// Regions by their index in the arena.
    regions: RwLock<HashMap<usize, Arc<Entry>>>,
    /// Processes by their index in the arena.
    processes: RwLock<HashMap<usize, Identity>>,
}

/// A memory region, as in the command that has registered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Index of its process.
    pub proc: usize,
    /// First address in the process.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// Access that is allowed (`ibv_access_flags`).
    pub access: u32,
}

/// The marks by which a process is known for certain: see `pids`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its id.
    pub pid: u32,
    /// Address of its nonce.
    pub nonce_addr: u64,
    /// The word at that address.
    pub nonce: u64,
}

#[derive(Debug)]
struct Entry {
    key: u32,
    region: Registered,
}

/// A region that is not registered any more. Copies may still be using it.
#[derive(Debug)]
pub struct Retired(Arc<Entry>);

impl Retired {
    /// Whether no copy uses it any more.
    pub fn is_unused(&mut self) -> bool {
        Arc::get_mut(&mut self.0).is_some()
    }
}

/// Regions that stay in use as long as the value lives.
#[derive(Debug)]
pub(super) struct RegionsInUse(
    #[expect(dead_code, reason = "it is there to be dropped")] Vec<Arc<Entry>>,
);

impl Registered {
    /// Whether a stretch of a process's memory lies in it and, if `is_written`, may be written.
    fn allows(&self, proc: usize, segment: Segment, is_written: bool) -> bool {
        let right = if is_written { SCATTER } else { GATHER };
        let offset = segment.addr.checked_sub(self.addr);
        let end = offset.and_then(|offset| offset.checked_add(segment.length));
        self.proc == proc
            && self.access & right == right
            && end.is_some_and(|end| end <= self.length)
    }
}

impl Registry {
    /// A registry of all processes, for the daemon.
    pub fn of_all(key_base: u32) -> Self {
        Self { of: None, key_base, regions: RwLock::default(), processes: RwLock::default() }
    }

    /// A registry of process `proc`, which runs this.
    pub fn of_process(proc: usize, key_base: u32) -> Self {
        Self { of: Some(proc), ..Self::of_all(key_base) }
    }

    /// Whether it has to know a process.
    fn is_about(&self, proc: usize) -> bool {
        self.of.is_none_or(|of| of == proc)
    }

    /// Enters a region that is registered with this key.
    pub fn register(&self, key: u32, region: Registered) {
        let Some(index) = key_index(key, self.key_base) else { return };
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        regions.insert(index, Arc::new(Entry { key, region }));
    }

    /// Removes the region with this key.
    pub fn deregister(&self, key: u32) -> Option<Retired> {
        let index = key_index(key, self.key_base)?;
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        // Another file of the process may have got the index already.
        regions.get(&index).filter(|entry| entry.key == key)?;
        regions.remove(&index).map(Retired)
    }

    /// Enters a process that takes part.
    pub fn announce(&self, proc: usize, identity: Identity) {
        let mut processes = self.processes.write().unwrap_or_else(PoisonError::into_inner);
        processes.insert(proc, identity);
    }

    /// Removes a process that has gone.
    pub fn forget(&self, proc: usize) {
        self.processes.write().unwrap_or_else(PoisonError::into_inner).remove(&proc);
    }

    /// The identity of a process; the outer `None` if this registry is not about it.
    pub(super) fn identity(&self, proc: usize) -> Option<Option<Identity>> {
        let processes = self.processes.read().unwrap_or_else(PoisonError::into_inner);
        self.is_about(proc).then(|| processes.get(&proc).copied())
    }

    /// Holds memory that process `me`, which runs this, is about to use; `None` if it is not
    /// registered. Memory that the engine of `me` keeps for itself needs no region: no other
    /// process has given its address.
    pub(super) fn hold(
        &self,
        me: usize,
        memory: Memory<'_>,
        is_written: bool,
    ) -> Option<RegionsInUse> {
        if !self.is_about(memory.proc) {
            return Some(RegionsInUse(Vec::new()));
        }
        let parts = memory.segments.iter().zip(0..).map(|(part, at)| (*part, memory.region(at)));
        let is_ours = |region| memory.proc == me && region == Region::NONE;
        self.hold_all(memory.proc, parts.filter(|(_, region)| !is_ours(*region)), is_written)
    }

    /// Holds registered memory of a process: each stretch with the region that it is said to lie
    /// in. `None` if one does not lie there or, if `is_written`, may not be written.
    pub(super) fn hold_all(
        &self,
        proc: usize,
        parts: impl IntoIterator<Item = (Segment, Region)>,
        is_written: bool,
    ) -> Option<RegionsInUse> {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        let find = |(segment, region): (Segment, Region)| {
            let entry = regions.get(&region.index()?)?;
            entry.region.allows(proc, segment, is_written).then(|| Arc::clone(entry))
        };
        parts.into_iter().map(find).collect::<Option<_>>().map(RegionsInUse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::key;

    const PROC: usize = 5;
    const INDEX: usize = 3;
    const BASE: u32 = 1000;
    const ADDR: u64 = 0x1000;

    fn registered(access: u32) -> Registered {
        Registered { proc: PROC, addr: ADDR, length: 100, access }
    }

    fn is_held(registry: &Registry, proc: usize, part: (u64, u64), is_written: bool) -> bool {
        let segment = Segment { addr: part.0, length: part.1 };
        registry.hold_all(proc, [(segment, Region::at(INDEX))], is_written).is_some()
    }

    #[test]
    fn bounds_rights_and_owners_count() {
        let registry = Registry::of_all(BASE);
        registry.register(key(INDEX, 1, BASE), registered(access::LOCAL_WRITE));
        for (part, is_within) in [
            ((ADDR, 100), true),
            ((ADDR + 99, 1), true),
            ((ADDR, 101), false),
            ((ADDR - 1, 1), false),
            ((ADDR + 50, u64::MAX), false),
            ((u64::MAX, 1), false),
            ((0, u64::MAX), false),
        ] {
            for is_written in [false, true] {
                assert_eq!(is_held(&registry, PROC, part, is_written), is_within, "{part:?}");
                assert!(!is_held(&registry, PROC + 1, part, is_written), "{part:?}");
            }
        }
        registry.register(key(INDEX, 2, BASE), registered(access::REMOTE_READ));
        assert!(is_held(&registry, PROC, (ADDR, 1), false));
        assert!(!is_held(&registry, PROC, (ADDR, 1), true));
    }

    #[test]
    fn the_whole_address_space_is_a_region() {
        let registry = Registry::of_all(BASE);
        let all = Registered { addr: 0, length: u64::MAX, ..registered(access::LOCAL_WRITE) };
        registry.register(key(INDEX, 1, BASE), all);
        assert!(is_held(&registry, PROC, (u64::MAX - 8, 8), true));
        assert!(is_held(&registry, PROC, (0, 8), true));
    }

    #[test]
    fn who_holds_a_region_uses_it() {
        let registry = Registry::of_all(BASE);
        let (old, new) = (key(INDEX, 1, BASE), key(INDEX, 2, BASE));
        registry.register(old, registered(0));
        let part = (Segment { addr: ADDR, length: 8 }, Region::at(INDEX));
        let held = registry.hold_all(PROC, [part], false).unwrap();
        let mut retired = registry.deregister(old).unwrap();
        assert!(!retired.is_unused());
        assert!(!is_held(&registry, PROC, (ADDR, 8), false));
        // Another region has its index meanwhile.
        registry.register(new, registered(0));
        assert!(registry.deregister(old).is_none());
        assert!(is_held(&registry, PROC, (ADDR, 8), false));
        drop(held);
        assert!(retired.is_unused());
    }

    #[test]
    fn memory_of_ones_own_needs_no_region() {
        let segments = [Segment { addr: ADDR, length: 8 }];
        let (ours, theirs) =
            (Memory::unregistered(PROC, &segments), Memory::unregistered(PROC + 1, &segments));
        let [own, all] = [Registry::of_process(PROC, BASE), Registry::of_all(BASE)];
        for (registry, memory, is_allowed) in
            [(&own, ours, true), (&own, theirs, true), (&all, ours, true), (&all, theirs, false)]
        {
            assert_eq!(registry.hold(PROC, memory, true).is_some(), is_allowed, "{memory:?}");
        }
        let regions = [Region::at(INDEX)];
        let named = Memory { proc: PROC, segments: &segments, regions: &regions };
        assert!(own.hold(PROC, named, false).is_none());
        assert!(all.hold(PROC, named, false).is_none());
    }
}
