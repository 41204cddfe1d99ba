//! The snapshot of a queue pair with a peer on another host: its state between two steps, in the arena, so that the daemon
//! and its process can run its lease of the port by turns.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use serde::{Deserialize, Serialize};
use soft_hca_roce::transport::queue_pair;

use crate::arena::{Arena, Mapping, Qp, lease_of, qp_index};
use crate::engine::remote::Arriving;
use crate::ring::Slot;
use crate::uapi::verbs::Qpn;

use super::path::Path;
use super::queue_pair::LinkQueuePair;

/// Bytes of each slot of the ring that holds it.
pub const SLOT_BYTES: usize = 4096;
/// Slots of that ring: more than the snapshot of a queue pair takes that has the device's max_qp_rd_atom (see
/// [`most_bytes`](soft_hca_roce::transport::snapshot::most_bytes)).
pub const SLOTS: usize = 16;

/// The state beside the transport's.
#[derive(Serialize, Deserialize)]
struct Beside {
    path: Path,
    arriving: Arriving,
}

/// Room for what is written, which is used again and again.
#[derive(Debug)]
pub struct Scratch(Box<[u8]>);

impl Default for Scratch {
    fn default() -> Self {
        Self(vec![0; SLOTS * SLOT_BYTES].into_boxed_slice())
    }
}

/// The slot at each multiple of [`SLOT_BYTES`], for as many bytes.
fn slots<'a>(arena: &'a Mapping, qp: &Qp, bytes: usize) -> Option<impl Iterator<Item = Slot<'a>>> {
    let ring = arena.ring(&qp.snapshot)?;
    let fits = ring.slot_bytes() == SLOT_BYTES
        && bytes <= SLOTS.min(ring.mask() as usize + 1) * SLOT_BYTES;
    fits.then(|| (0..bytes.div_ceil(SLOT_BYTES)).map(move |index| ring.slot(index as u32)))
}

impl LinkQueuePair {
    /// The lease to which a queue pair belongs, if that is a process's: then the arena has room for its
    /// snapshot.
    pub fn lease(arena: &Arena, qpn: Qpn) -> Option<usize> {
        let has_room = arena.qp(qpn.get())?.snapshot.offset.load(Acquire) != 0;
        let index = qp_index(qpn.get(), arena.qpn_base.load(Relaxed))?;
        has_room.then(|| lease_of(index))
    }

    /// Saves its state in the arena. The caller has its lease's lock.
    pub fn save_snapshot(&mut self, arena: &Mapping, Scratch(buffer): &mut Scratch) {
        let Some(qp) = arena.qp(self.qpn.get()) else { return };
        let beside = Beside { path: self.path, arriving: std::mem::take(&mut self.arriving) };
        let head = postcard::to_slice(&beside, buffer).map_or(0, |bytes| bytes.len());
        self.arriving = beside.arriving;
        let bytes = self.transport.save(&mut buffer[head..]).map(|bytes| head + bytes.len());
        let length = bytes.filter(|_| head > 0).unwrap_or(0);
        let slots = slots(arena, qp, length);
        for (slot, bytes) in slots.into_iter().flatten().zip(buffer[..length].chunks(SLOT_BYTES)) {
            slot.write_bytes(bytes);
        }
        self.version = self.version.wrapping_add(1);
        qp.snapshot_bytes.store(length as u32, Release);
        qp.snapshot_version.store(self.version, Release);
    }

    /// Takes the snapshot that another one has left in the arena, if that is newer. False if there is none any
    /// more. The caller has its lease's lock.
    pub fn refresh(&mut self, arena: &Mapping) -> bool {
        let Some(qp) = arena.qp(self.qpn.get()) else { return false };
        if qp.snapshot_version.load(Acquire) == self.version {
            return true;
        }
        match Self::from_snapshot(arena, self.qpn) {
            Some(saved) => {
                *self = saved;
                true
            }
            None => false,
        }
    }

    /// The queue pair whose snapshot is in the arena, if there is one. The caller has its lease's
    /// lock.
    pub fn from_snapshot(arena: &Mapping, qpn: Qpn) -> Option<Self> {
        let qp = arena.qp(qpn.get())?;
        let length = qp.snapshot_bytes.load(Acquire) as usize;
        let mut buffer = vec![0; length.min(SLOTS * SLOT_BYTES)];
        for (slot, bytes) in slots(arena, qp, length)?.zip(buffer.chunks_mut(SLOT_BYTES)) {
            slot.read_bytes(0, bytes);
        }
        let (Beside { path, arriving }, rest) = postcard::take_from_bytes(&buffer).ok()?;
        let transport = queue_pair::QueuePair::restore(rest)?;
        let version = qp.snapshot_version.load(Acquire);
        let kind = qp.qp_type.load(Acquire);
        let sending = Default::default();
        Some(Self { qpn, kind, path, transport, sending, arriving, version })
    }

    /// Removes the snapshot of an entry: nobody goes on with that queue pair.
    pub fn forget(qp: &Qp) {
        qp.snapshot_bytes.store(0, Release);
        qp.snapshot_version.fetch_add(1, Release);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::Ordering::Release;

    use proptest::prelude::*;

    use super::*;
    use crate::arena::HEAP_START;
    use crate::uapi::verbs::qp_type;

    const QPN: Qpn = Qpn::new(0x11);

    /// Gives a queue pair room for its snapshot, at an offset in the arena.
    pub(in crate::port) fn give_room(qp: &Qp, place: usize) {
        qp.snapshot.offset.store(place as u64, Release);
        qp.snapshot.mask.store(SLOTS as u32 - 1, Release);
        qp.snapshot.log2_slot.store(SLOT_BYTES.trailing_zeros(), Release);
    }

    /// A connected queue pair that has room for its snapshot.
    fn arena() -> Mapping {
        let arena = Mapping::create().unwrap();
        let qp = &arena.qps[0];
        give_room(qp, HEAP_START);
        for (field, value) in [
            (&qp.qp_type, qp_type::RC),
            (&qp.path_mtu, 3),
            (&qp.max_rd_atomic, 128),
            (&qp.max_dest_rd_atomic, 128),
            (&qp.dest_qpn, 0x12),
            (&qp.live, QPN.get()),
        ] {
            field.store(value, Release);
        }
        arena
    }

    fn queue_pair(arena: &Mapping) -> LinkQueuePair {
        let [own, peer] = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().unwrap());
        let path = Path { traffic_class: 7, hop_limit: Some(9), ..Path::new(own, peer) };
        let mut queue_pair = LinkQueuePair::new(&arena.qps[0], QPN, path).unwrap();
        queue_pair.begin_to_send(&arena.qps[0]);
        queue_pair
    }

    #[test]
    fn another_one_goes_on_with_the_snapshot() {
        let (arena, mut scratch) = (arena(), Scratch::default());
        assert_eq!(LinkQueuePair::lease(&arena, QPN), Some(0));
        assert!(LinkQueuePair::from_snapshot(&arena, QPN).is_none());
        let mut first = queue_pair(&arena);
        first.save_snapshot(&arena, &mut scratch);
        let mut second = LinkQueuePair::from_snapshot(&arena, QPN).unwrap();
        assert_eq!(format!("{first:?}"), format!("{second:?}"));
        assert_eq!((second.path, second.number()), (first.path, QPN));
        second.path.traffic_class = 8;
        second.save_snapshot(&arena, &mut scratch);
        assert!(first.refresh(&arena));
        assert_eq!((first.path, first.version), (second.path, second.version));
        LinkQueuePair::forget(&arena.qps[0]);
        assert!(!first.refresh(&arena) && LinkQueuePair::from_snapshot(&arena, QPN).is_none());
    }

    proptest! {
        /// Whatever a program writes there is a queue pair or none.
        #[test]
        fn nonsense_is_none_or_possible(
            at in 0..200usize,
            bytes in prop::collection::vec(any::<u8>(), 1..16),
            length in prop_oneof![0..300u32, any::<u32>()],
        ) {
            let (arena, mut scratch) = (arena(), Scratch::default());
            queue_pair(&arena).save_snapshot(&arena, &mut scratch);
            let mut whole = vec![0; SLOT_BYTES];
            let slot = slots(&arena, &arena.qps[0], SLOT_BYTES).unwrap().next().unwrap();
            slot.read_bytes(0, &mut whole);
            whole[at..at + bytes.len()].copy_from_slice(&bytes);
            slot.write_bytes(&whole);
            arena.qps[0].snapshot_bytes.store(length, Release);
            if let Some(mut found) = LinkQueuePair::from_snapshot(&arena, QPN) {
                found.save_snapshot(&arena, &mut scratch);
            }
        }
    }
}
