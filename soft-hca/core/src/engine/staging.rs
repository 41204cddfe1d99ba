//! The indices of a ring of staged payloads, and what its two sides agree by: the side that
//! stages has the completion queue's lock, the one that moves another, and no lock is between the two.
#![allow(unreachable_pub, reason = "the loom models are another crate")]

/// A ring's indices, which are kept masked. Reading one acquires, writing one releases.
pub trait Indices {
    /// Slots minus 1: so many can be filled.
    fn mask(&self) -> u32;
    /// Index of the slot that will be filled next.
    fn producer(&self) -> u32;
    /// Index of the slot that will be emptied next.
    fn consumer(&self) -> u32;
    /// Gives the slots before `index` back, whose payloads have been moved.
    fn set_consumer(&self, index: u32);

    /// Slots from one index up to another.
    fn slots(&self, from: u32, to: u32) -> u32 {
        to.wrapping_sub(from) & self.mask()
    }
}

/// Whether a payload that was staged before has not been moved.
///
/// The producer's index is read first: if the consumer's is the same after that, all up to there has
/// been moved. The other way round the ring may be filled in between, until the producer is back at what
/// the consumer was.
#[inline]
pub fn is_waiting(ring: &impl Indices) -> bool {
    let producer = ring.producer();
    ring.consumer() != producer
}

/// Free slots, if there are as many as are needed. `known` are free for sure; only if that is too little
/// one looks how far the other side is. The caller has the queue's lock.
#[inline]
pub fn free_slots(ring: &impl Indices, known: u32, needed: u64) -> Option<u32> {
    let is_enough = |free: &u32| needed <= (*free).into();
    let counted = || ring.mask() - ring.slots(ring.consumer(), ring.producer());
    Some(known.min(ring.mask())).filter(is_enough).or_else(|| Some(counted()).filter(is_enough))
}

/// Moves all payloads that are there: `move_one` gets the index of an entry and gives how many slots it
/// has. The caller has the lock for that. An entry that goes beyond what is filled, which somebody has
/// written to whom it does not belong, is the last: `None`.
#[inline]
pub fn move_all(ring: &impl Indices, mut move_one: impl FnMut(u32, u32) -> Option<u32>) {
    let (mut consumer, producer) = (ring.consumer(), ring.producer());
    while consumer != producer {
        consumer = match move_one(consumer, ring.slots(consumer, producer)) {
            Some(slots) => consumer.wrapping_add(slots) & ring.mask(),
            None => producer,
        };
    }
    ring.set_consumer(consumer);
}
