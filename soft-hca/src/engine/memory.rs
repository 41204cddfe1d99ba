//! Who may reach which memory: keys, bounds, rights. `rxe_mr.c`, `lookup_mr`.

use std::sync::atomic::Ordering::Acquire;

use crate::arena::{Arena, Mr, Qp};
use crate::engine::DAEMON;
use crate::engine::link::Segment;
use crate::uapi::rxe::Sge;
use crate::uapi::verbs::access;

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

/// Access with a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// The key.
    pub key: u32,
    /// First address, as the region names it.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// Bits of [`access`] that the region or window has to allow.
    pub access: u32,
}

impl Owner {
    pub(super) fn of(qp: &Qp, qpn: u32) -> Self {
        Self { qpn, proc: qp.proc.load(Acquire) as usize, pd: qp.pd.load(Acquire) }
    }

    /// The address in the owner's memory of an element, which is not empty.
    pub(super) fn local(&self, arena: &Arena, sge: Sge, access: u32) -> Option<u64> {
        let Sge { addr, length, lkey } = sge;
        let wanted = Wanted { key: lkey, addr, length: length.into(), access };
        self.resolve(arena, wanted, false)
    }

    /// The address in the owner's memory of what a peer wants to reach. Windows count, too.
    pub(super) fn remote(&self, arena: &Arena, wanted: Wanted) -> Option<u64> {
        self.resolve(arena, wanted, true)
    }

    fn resolve(&self, arena: &Arena, wanted: Wanted, windows: bool) -> Option<u64> {
        let mr = arena.mr(wanted.key)?;
        // The daemon has no regions, whatever a table says.
        if self.proc == DAEMON {
            return None;
        }
        let is_ours = mr.proc.load(Acquire) as usize == self.proc && mr.pd.load(Acquire) == self.pd;
        if !is_ours || mr.access.load(Acquire) & wanted.access != wanted.access {
            return None;
        }
        match mr.kind.load(Acquire) {
            0 => {}
            kind if windows => {
                if kind == 2 && mr.bound_qpn.load(Acquire) != self.qpn {
                    return None;
                }
                let region = (mr.bound.load(Acquire) as usize).checked_sub(1)?;
                let region = arena.mrs.get(region)?;
                if region.live.load(Acquire) == 0 || region.kind.load(Acquire) != 0 {
                    return None;
                }
            }
            _ => return None,
        }
        let offset = wanted.addr.checked_sub(mr.iova.load(Acquire))?;
        let end = offset.checked_add(wanted.length)?;
        let addr = mr.addr.load(Acquire).checked_add(offset)?;
        let fits = end <= mr.length.load(Acquire) && addr.checked_add(wanted.length).is_some();
        // Still the same entry: none of the above was another region's.
        (fits && mr.live.load(Acquire) == wanted.key).then_some(addr)
    }
}

/// Whether memory of a process is registered, and, if it is to be written, for writing. Regions may
/// follow each other within it.
pub(super) fn is_registered(
    arena: &Arena,
    proc: usize,
    segment: Segment,
    is_written: bool,
) -> bool {
    let wanted = if is_written { SCATTER } else { GATHER };
    let used = (arena.mrs_used.load(Acquire) as usize).min(arena.mrs.len());
    let end_of_region = |mr: &Mr, addr: u64| -> Option<u64> {
        let key = mr.live.load(Acquire);
        let start = mr.addr.load(Acquire);
        let end = start.checked_add(mr.length.load(Acquire))?;
        let fits = key != 0
            && mr.proc.load(Acquire) as usize == proc
            && mr.kind.load(Acquire) == 0
            && mr.access.load(Acquire) & wanted == wanted
            && (start..end).contains(&addr);
        (fits && mr.live.load(Acquire) == key).then_some(end)
    };
    let Some(end) = segment.addr.checked_add(segment.length) else { return false };
    let mut at = segment.addr;
    while at < end {
        match arena.mrs[..used].iter().find_map(|mr| end_of_region(mr, at)) {
            Some(covered) => at = covered,
            None => return false,
        }
    }
    true
}

/// What a scatter list must allow.
pub(super) const SCATTER: u32 = access::LOCAL_WRITE;
/// What a gather list must allow: any registered memory can be read by its owner.
pub(super) const GATHER: u32 = 0;
