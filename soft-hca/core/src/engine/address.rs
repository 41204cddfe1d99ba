//! The address handle that a datagram names. `rxe_av.c`.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Acquire;

use crate::arena::{Ah, Arena};
use crate::engine::memory::Owner;
use crate::uapi::rxe::{AddressVector, SendWqe};

/// The address handle that a request names, if its owner may use it: by number or, from a provider
/// that does not know numbers, by what it was created with (`rxe_av.c`, `rxe_get_av`).
pub(super) fn find<'a>(arena: &'a Arena, owner: &Owner, wqe: &SendWqe<'_>) -> Option<&'a Ah> {
    let is_ours =
        |ah: &Ah| ah.proc.load(Acquire) as usize == owner.proc && ah.pd.load(Acquire) == owner.pd;
    let Some(index) = (wqe.datagram().ah as usize).checked_sub(1) else {
        let vector = wqe.address_vector();
        let used = (arena.ahs_used.load(Acquire) as usize).min(arena.ahs.len());
        let mut handles = arena.ahs[..used].iter();
        return handles.find(|ah| is_ours(ah) && is_made_with(ah, &vector));
    };
    let ah = arena.ahs.get(index)?;
    (ah.live.load(Acquire) as usize == index + 1 && is_ours(ah)).then_some(ah)
}

/// Whether an address handle exists and was created with this address vector.
fn is_made_with(ah: &Ah, vector: &AddressVector) -> bool {
    ah.live.load(Acquire) != 0
        && ah.port.load(Acquire) == vector.port.into()
        && ah.sgid_index.load(Acquire) == vector.sgid_index.into()
        && gid(&ah.dgid) == vector.dgid
        && ah.hop_limit.load(Acquire) == vector.hop_limit.into()
        && ah.traffic_class.load(Acquire) == vector.traffic_class.into()
        && ah.flow_label.load(Acquire) == vector.flow_label
}

/// A GID of the arena.
pub(super) fn gid(gid: &[AtomicU8; 16]) -> [u8; 16] {
    std::array::from_fn(|i| gid[i].load(Acquire))
}
