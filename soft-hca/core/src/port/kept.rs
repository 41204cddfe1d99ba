//! What a queue pair with a peer on another host keeps in the arena between two steps, so that whoever
//! runs its share of the port goes on with it.

use std::sync::atomic::Ordering::{Acquire, Release};

use serde::{Deserialize, Serialize};
use soft_hca_roce::transport::queue_pair;

use crate::arena::{Arena, Mapping, Qp};
use crate::engine::remote::Arriving;
use crate::ring::Slot;
use crate::uapi::verbs::Qpn;

use super::path::Path;
use super::queue_pair::QueuePair;

/// Bytes of each slot of the ring that holds it.
pub const SLOT_BYTES: usize = 4096;
/// Slots of that ring: more than a queue pair keeps that has the device's max_qp_rd_atom (see
/// [`most_bytes`](soft_hca_roce::transport::snapshot::most_bytes)).
pub const SLOTS: usize = 16;

/// What is beside the transport.
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
    let ring = arena.ring(&qp.kept)?;
    let fits = ring.slot_bytes() == SLOT_BYTES
        && bytes <= SLOTS.min(ring.mask() as usize + 1) * SLOT_BYTES;
    fits.then(|| (0..bytes.div_ceil(SLOT_BYTES)).map(move |index| ring.slot(index as u32)))
}

impl QueuePair {
    /// Whether the arena has room for what it keeps.
    pub fn is_kept(arena: &Arena, qpn: Qpn) -> bool {
        arena.qp(qpn.get()).is_some_and(|qp| qp.kept.offset.load(Acquire) != 0)
    }

    /// Leaves its state in the arena. The caller has its share's lock.
    pub fn keep(&mut self, arena: &Mapping, Scratch(buffer): &mut Scratch) {
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
        qp.kept_bytes.store(length as u32, Release);
        qp.kept_version.store(self.version, Release);
    }

    /// Makes it what another one has left in the arena, if that is newer. False if there is none any
    /// more. The caller has its share's lock.
    pub fn refresh(&mut self, arena: &Mapping) -> bool {
        let Some(qp) = arena.qp(self.qpn.get()) else { return false };
        if qp.kept_version.load(Acquire) == self.version {
            return true;
        }
        match Self::kept(arena, self.qpn) {
            Some(kept) => {
                *self = kept;
                true
            }
            None => false,
        }
    }

    /// The queue pair that somebody has left in the arena, if there is one. The caller has its share's
    /// lock.
    pub fn kept(arena: &Mapping, qpn: Qpn) -> Option<Self> {
        let qp = arena.qp(qpn.get())?;
        let length = qp.kept_bytes.load(Acquire) as usize;
        let mut buffer = vec![0; length.min(SLOTS * SLOT_BYTES)];
        for (slot, bytes) in slots(arena, qp, length)?.zip(buffer.chunks_mut(SLOT_BYTES)) {
            slot.read_bytes(0, bytes);
        }
        let (Beside { path, arriving }, rest) = postcard::take_from_bytes(&buffer).ok()?;
        let transport = queue_pair::QueuePair::restore(rest)?;
        let version = qp.kept_version.load(Acquire);
        let kind = qp.qp_type.load(Acquire);
        let sending = Default::default();
        Some(Self { qpn, kind, path, transport, sending, arriving, version })
    }

    /// Nobody goes on with the queue pair that is kept in an entry.
    pub fn forget(qp: &Qp) {
        qp.kept_bytes.store(0, Release);
        qp.kept_version.fetch_add(1, Release);
    }
}
