//! Who may reach which memory: keys, bounds, rights. `rxe_mr.c`, `lookup_mr`.

use std::sync::atomic::Ordering::Acquire;

use crate::arena::{Arena, Qp};
use crate::engine::DAEMON;
use crate::uapi::rxe::{Sge, access};

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

/// What a scatter list must allow.
pub(super) const SCATTER: u32 = access::LOCAL_WRITE;
/// What a gather list must allow: any registered memory can be read by its owner.
pub(super) const GATHER: u32 = 0;
