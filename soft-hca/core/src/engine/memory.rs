//! Access to memory: keys, bounds, rights. `rxe_mr.c`, `lookup_mr`.

use std::sync::atomic::Ordering::Acquire;

use soft_hca_verbs::cause::{Cause, MemoryRole};

use crate::arena::{Arena, Mr, Qp};
use crate::engine::check::CheckError;
use crate::engine::proc::is_daemon;
use crate::engine::segments::{Region, Segment};
use crate::uapi::rxe::Sge;
use crate::uapi::verbs::AccessFlags;

pub(super) use crate::engine::registry::{GATHER, SCATTER};

/// On whose behalf memory is used: a queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    /// Number of the queue pair.
    pub qpn: u32,
    /// Index of its process.
    pub proc: usize,
    /// Its protection domain.
    pub pd: u32,
}

/// An access that names memory by a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyedAccess {
    /// The key.
    pub key: u32,
    /// First address, as the region names it.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// Bits of [`access`](crate::uapi::verbs::access) that the region or window has to allow.
    pub access: u32,
}

impl Owner {
    pub(super) fn of(qp: &Qp, qpn: u32) -> Self {
        Self { qpn, proc: qp.proc.load(Acquire) as usize, pd: qp.pd.load(Acquire) }
    }

    /// The location in the owner's memory of an SGE that is not empty; `memory` says which list it is
    /// in.
    #[inline(always)]
    pub(super) fn local(
        &self,
        arena: &Arena,
        sge: Sge,
        access: u32,
        memory: MemoryRole,
    ) -> Result<(Segment, Region), CheckError> {
        let Sge { addr, length, lkey } = sge;
        let access = KeyedAccess { key: lkey, addr, length: length.into(), access };
        self.resolve(arena, access, memory)
    }

    /// The location in the owner's memory of a peer's access. Windows count, too.
    pub(super) fn remote(
        &self,
        arena: &Arena,
        access: KeyedAccess,
    ) -> Result<(Segment, Region), CheckError> {
        self.resolve(arena, access, MemoryRole::Remote)
    }

    #[inline(always)]
    fn resolve(
        &self,
        arena: &Arena,
        access: KeyedAccess,
        memory: MemoryRole,
    ) -> Result<(Segment, Region), CheckError> {
        let KeyedAccess { key, addr: from, length, access: needed } = access;
        let Some(mr) = arena.mr(key) else { return Err(no_key(memory, key)) };
        // The daemon has no regions, whatever a table says.
        if is_daemon(self.proc) || mr.proc.load(Acquire) as usize != self.proc {
            return Err(no_key(memory, key));
        }
        if mr.pd.load(Acquire) != self.pd {
            return Err(other_domain(memory, key));
        }
        let allowed = mr.access.load(Acquire);
        if allowed & needed != needed {
            return Err(no_access(memory, key, (needed, allowed)));
        }
        let index = match mr.kind.load(Acquire) {
            0 => arena.key_index(key),
            kind if memory == MemoryRole::Remote => self.region_behind(arena, mr, kind),
            _ => None,
        };
        let Some(index) = index else { return Err(no_window(memory, key)) };
        let (start, bytes) = (mr.iova.load(Acquire), mr.length.load(Acquire));
        let offset = from.wrapping_sub(start);
        let (end, addr) = (offset.checked_add(length), mr.addr.load(Acquire).checked_add(offset));
        let is_within = from >= start && end.is_some_and(|end| end <= bytes);
        let addr = addr.filter(|addr| is_within && addr.checked_add(length).is_some());
        let Some(addr) = addr else {
            return Err(out_of_bounds(memory, key, (from, length), (start, bytes)));
        };
        // Still the same entry: none of the above was another region's.
        if mr.live.load(Acquire) != key {
            return Err(no_key(memory, key));
        }
        Ok((Segment { addr, length }, Region::at(index)))
    }

    /// The index of the region that a window is bound to, if it is there and the owner may use the
    /// window.
    fn region_behind(&self, arena: &Arena, mw: &Mr, kind: u32) -> Option<usize> {
        if kind == 2 && mw.bound_qpn.load(Acquire) != self.qpn {
            return None;
        }
        let index = (mw.bound.load(Acquire) as usize).checked_sub(1)?;
        let region = arena.mrs.get(index)?;
        let is_there = region.live.load(Acquire) != 0 && region.kind.load(Acquire) == 0;
        is_there.then_some(index)
    }
}

#[cold]
#[inline(never)]
fn no_key(memory: MemoryRole, key: u32) -> CheckError {
    CheckError::memory(memory, Cause::Key { memory, key })
}

#[cold]
#[inline(never)]
fn other_domain(memory: MemoryRole, key: u32) -> CheckError {
    CheckError::memory(memory, Cause::ProtectionDomain { memory, key })
}

#[cold]
#[inline(never)]
fn no_access(memory: MemoryRole, key: u32, (needed, allowed): (u32, u32)) -> CheckError {
    let [needed, allowed] = [needed, allowed].map(AccessFlags::from_bits_retain);
    CheckError::memory(memory, Cause::Access { memory, key, needed, allowed })
}

#[cold]
#[inline(never)]
fn no_window(memory: MemoryRole, key: u32) -> CheckError {
    CheckError::memory(memory, Cause::Window { memory, key })
}

#[cold]
#[inline(never)]
fn out_of_bounds(
    memory: MemoryRole,
    key: u32,
    access: (u64, u64),
    region: (u64, u64),
) -> CheckError {
    CheckError::memory(memory, bounds(memory, key, access, region))
}

/// An access is not within a region: the first address and the bytes of both.
pub(super) fn bounds(
    memory: MemoryRole,
    key: u32,
    (address, length): (u64, u64),
    (region_address, region_length): (u64, u64),
) -> Cause {
    Cause::Bounds { memory, key, address, length, region_address, region_length }
}

/// Whether memory of a process is still registered for writing, in the region that it was found in.
pub(super) fn may_be_written(
    arena: &Arena,
    proc: usize,
    (segment, region): (Segment, Region),
) -> bool {
    let Some(mr) = region.index().and_then(|index| arena.mrs.get(index)) else { return false };
    let key = mr.live.load(Acquire);
    let offset = segment.addr.checked_sub(mr.addr.load(Acquire));
    let end = offset.and_then(|offset| offset.checked_add(segment.length));
    key != 0
        && mr.proc.load(Acquire) as usize == proc
        && mr.kind.load(Acquire) == 0
        && mr.access.load(Acquire) & SCATTER == SCATTER
        && end.is_some_and(|end| end <= mr.length.load(Acquire))
        && mr.live.load(Acquire) == key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::fabric::{ALL, Buffer, PD, THEM, US, World, set};
    use crate::engine::{DAEMON, wc_status};
    use crate::uapi::verbs::access;

    const QPN: u32 = 0x11;

    fn owner() -> Owner {
        Owner { qpn: QPN, proc: US, pd: PD }
    }

    fn keyed_access(buffer: &mut Buffer, key: u32) -> KeyedAccess {
        KeyedAccess { key, addr: buffer.addr() + 1, length: 5, access: access::REMOTE_WRITE }
    }

    #[test]
    fn what_a_key_leads_to_names_its_region() {
        let world = World::new();
        let mut buffer = world.buffer(US, vec![0; 8]);
        let mut other = world.buffer(US, vec![0; 8]);
        let key = other.key;
        let segment = Segment { addr: other.addr() + 1, length: 5 };
        let found = Ok((segment, Region::at(1)));
        assert_eq!(owner().local(&world.arena, other.sge(1, 5), SCATTER, MemoryRole::Local), found);
        assert_eq!(owner().remote(&world.arena, keyed_access(&mut other, key)), found);
        let elsewhere = keyed_access(&mut buffer, key);
        let (memory, access) = (MemoryRole::Remote, (elsewhere.addr, 5));
        let bounds = bounds(memory, key, access, (other.addr(), 8));
        let refused = Err(CheckError::new(wc_status::REMOTE_MEMORY, bounds));
        assert_eq!(owner().remote(&world.arena, elsewhere), refused);
        // The daemon has none.
        let (daemon, no_key) = (Owner { proc: DAEMON, ..owner() }, Cause::Key { memory, key });
        set(&world.arena.mr(key).unwrap().proc, DAEMON as u32);
        let refused = Err(CheckError::new(wc_status::REMOTE_MEMORY, no_key));
        assert_eq!(daemon.remote(&world.arena, keyed_access(&mut other, key)), refused);
        set(&world.arena.mr(key).unwrap().proc, US as u32);
        // A window names the region that it is bound to.
        let window = world.window(US, 2);
        let mw = world.arena.mr(window).unwrap();
        for (field, value) in [(&mw.access, ALL), (&mw.bound_qpn, QPN), (&mw.bound, 2)] {
            set(field, value);
        }
        for (field, value) in [(&mw.addr, other.addr()), (&mw.iova, other.addr()), (&mw.length, 8)]
        {
            field.store(value, std::sync::atomic::Ordering::Release);
        }
        assert_eq!(owner().remote(&world.arena, keyed_access(&mut other, window)), found);
    }

    #[test]
    fn memory_is_in_the_region_that_is_named() {
        let world = World::new();
        let mut first = world.buffer(US, vec![0; 8]);
        let mut second = world.buffer(US, vec![0; 8]);
        let within = Segment { addr: second.addr() + 1, length: 5 };
        let beyond = Segment { addr: first.addr() + 4, length: 5 };
        let is_ours = |segment, region| may_be_written(&world.arena, US, (segment, region));
        for region in [Region::NONE, Region::at(0), Region::at(1), Region::from_word(u32::MAX)] {
            assert_eq!(is_ours(within, region), region == Region::at(1), "{region:?}");
            assert!(!is_ours(beyond, region), "{region:?}");
            assert!(!may_be_written(&world.arena, THEM, (within, region)), "{region:?}");
        }
    }
}
