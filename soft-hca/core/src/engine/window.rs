//! Memory windows: whose they are, and invalidating them. `rxe_mw.c`.
//!
//! A window is bound while its `bound` is not 0. A window of type 2 belongs to the queue pair that
//! has bound it. Regions that programs have registered cannot be invalidated.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use crate::arena::{Arena, Mr};
use crate::engine::memory::Owner;
use crate::uapi::verbs::mw_type::{TYPE_1, TYPE_2};

/// The window with this key, if the owner may do something with it.
pub(super) fn find<'a>(arena: &'a Arena, owner: &Owner, key: u32) -> Option<&'a Mr> {
    let mw = arena.mr(key)?;
    let is_ours = mw.proc.load(Acquire) as usize == owner.proc && mw.pd.load(Acquire) == owner.pd;
    (is_ours && matches!(mw.kind.load(Acquire), TYPE_1 | TYPE_2)).then_some(mw)
}

/// Whether a queue pair may invalidate this key: a window of type 2 that it has bound.
pub(super) fn can_invalidate(arena: &Arena, owner: &Owner, key: u32) -> bool {
    find(arena, owner, key).is_some_and(|mw| {
        mw.kind.load(Acquire) == TYPE_2
            && mw.bound.load(Acquire) != 0
            && mw.bound_qpn.load(Acquire) == owner.qpn
    })
}

/// Invalidates a key, if the queue pair may.
pub(super) fn invalidate(arena: &Arena, owner: &Owner, key: u32) {
    if can_invalidate(arena, owner, key) {
        if let Some(mw) = find(arena, owner, key) {
            unbind(arena, mw);
        }
    }
}

/// Makes a window useless. The access goes first, for others may be looking.
pub(super) fn unbind(arena: &Arena, mw: &Mr) {
    mw.access.store(0, Release);
    mw.bound_qpn.store(0, Release);
    mw.length.store(0, Release);
    let region = (mw.bound.swap(0, AcqRel) as usize).checked_sub(1);
    if let Some(region) = region.and_then(|region| arena.mrs.get(region)) {
        let _ = region.bound.fetch_update(AcqRel, Acquire, |bound| bound.checked_sub(1));
    }
}
