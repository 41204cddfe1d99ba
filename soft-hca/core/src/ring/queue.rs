//! One ring: a header with two indices, then slots.
//!
//! The indices are kept masked and one slot stays empty: equal indices mean that the ring is
//! empty, a producer right behind the consumer that it is full. A side acquires the other's index
//! and releases its own, so that a slot's content travels with the index.
//!
//! The other process may write anything. Every index is masked when it is read, a slot
//! knows its bounds, and the ring's size comes from our own tables, never from the header.
//! The documentation of `arena` has what each side may assume (access to shared memory).
#![allow(unsafe_code, reason = "atomics in memory that others write to")]

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Bytes before the first slot.
pub(crate) const HEADER_BYTES: usize = 384;

/// Offsets in the header.
mod header {
    pub(super) const LOG2_SLOT: usize = 0;
    pub(super) const MASK: usize = 4;
    pub(super) const PRODUCER: usize = 128;
    pub(super) const CONSUMER: usize = 256;
}

/// The largest ring has 2^21 slots: room for `max_qp_wr` (2^20) requests and one empty slot.
const MAX_MASK: u32 = (1 << 21) - 1;
/// Slots have 64 to 4096 bytes.
const LOG2_SLOT_BYTES: std::ops::RangeInclusive<u32> = 6..=12;

/// Bytes of a ring, header included; `None` if there is no such ring.
#[inline]
pub fn bytes(mask: u32, log2_slot: u32) -> Option<usize> {
    let is_ring = mask <= MAX_MASK && mask & mask.wrapping_add(1) == 0;
    (is_ring && LOG2_SLOT_BYTES.contains(&log2_slot))
        .then(|| HEADER_BYTES + ((mask as usize + 1) << log2_slot))
}

/// A ring in memory that others change at any time.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    base: NonNull<u8>,
    mask: u32,
    log2_slot: u32,
    memory: PhantomData<&'a AtomicU8>,
}

impl<'a> Ring<'a> {
    /// The ring at an address.
    ///
    /// # Safety
    /// [`bytes`]`(mask, log2_slot)` gives a size, and so many bytes from `base` on are mapped
    /// readable and writable for `'a`, aligned to 64, and accessed as
    /// the documentation of `arena` says (access to shared memory).
    #[inline]
    pub unsafe fn new(base: *mut u8, mask: u32, log2_slot: u32) -> Self {
        let base = NonNull::new(base).expect("a mapping does not begin at address 0");
        Self { base, mask, log2_slot, memory: PhantomData }
    }

    #[inline]
    fn header(&self, offset: usize) -> &'a AtomicU32 {
        // SAFETY: the offset is one of the four in the header, aligned to 4, and within the memory that the caller of
        // `new` has promised; nothing there has a reference but atomics.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().wrapping_add(offset).cast()) }
    }

    /// Makes the ring empty and writes the sizes that the provider reads.
    pub fn init_header(&self) {
        self.header(header::LOG2_SLOT).store(self.log2_slot, Release);
        self.header(header::MASK).store(self.mask, Release);
        self.set_consumer(0);
        self.set_producer(0);
    }

    /// Slots minus 1, which also is how many entries fit.
    #[inline]
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// Bytes of a slot.
    #[inline]
    pub fn slot_bytes(&self) -> usize {
        1 << self.log2_slot
    }

    /// Index of the slot that will be filled next.
    #[inline]
    pub fn producer(&self) -> u32 {
        self.header(header::PRODUCER).load(Acquire) & self.mask
    }

    /// Publishes what was written to the slots before `index`. Only for the producing side.
    #[inline]
    pub fn set_producer(&self, index: u32) {
        self.header(header::PRODUCER).store(index & self.mask, Release);
    }

    /// Index of the slot that will be emptied next.
    #[inline]
    pub fn consumer(&self) -> u32 {
        self.header(header::CONSUMER).load(Acquire) & self.mask
    }

    /// Gives the slots before `index` back. Only for the consuming side.
    #[inline]
    pub fn set_consumer(&self, index: u32) {
        self.header(header::CONSUMER).store(index & self.mask, Release);
    }

    /// Has the processor fetch the consumer's index: it will be written soon.
    #[inline]
    pub fn prefetch_consumer_for_writing(&self) {
        prefetch_for_writing(self.base.as_ptr().wrapping_add(header::CONSUMER));
    }

    /// The same: it will be read soon.
    #[inline]
    pub fn prefetch_consumer(&self) {
        prefetch(self.base.as_ptr().wrapping_add(header::CONSUMER));
    }

    /// The same for the producer's index, to be written.
    #[inline]
    pub fn prefetch_producer_for_writing(&self) {
        prefetch_for_writing(self.base.as_ptr().wrapping_add(header::PRODUCER));
    }

    /// The same: it will be read soon.
    #[inline]
    pub fn prefetch_producer(&self) {
        prefetch(self.base.as_ptr().wrapping_add(header::PRODUCER));
    }

    /// The index `count` slots further on.
    #[inline]
    pub fn advance(&self, index: u32, count: u32) -> u32 {
        index.wrapping_add(count) & self.mask
    }

    /// Entries from one index up to another.
    #[inline]
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        to.wrapping_sub(from) & self.mask
    }

    /// Entries that are filled and not emptied, going by the header.
    pub fn unread(&self) -> u32 {
        self.distance(self.consumer(), self.producer())
    }

    /// Whether nothing more fits, going by the header.
    pub fn is_full(&self) -> bool {
        self.unread() == self.mask
    }

    /// The slot with an index, which is masked.
    #[inline]
    pub fn slot(&self, index: u32) -> Slot<'a> {
        let offset = HEADER_BYTES + (((index & self.mask) as usize) << self.log2_slot);
        // SAFETY: a masked index is that of a slot of the ring, all of which are mapped.
        let base = unsafe { self.base.add(offset) };
        Slot { base, bytes: self.slot_bytes(), memory: PhantomData }
    }

    /// The addresses in this process of `bytes` bytes that begin with the slot with an index and go on
    /// through the slots behind it, at the ring's end those at its beginning: two stretches, each
    /// an address and how long it is. `None` if the ring is not that long.
    pub fn stretches(&self, index: u32, bytes: usize) -> Option<[(u64, usize); 2]> {
        let whole = (self.mask as usize + 1) << self.log2_slot;
        let start = ((index & self.mask) as usize) << self.log2_slot;
        let first = bytes.min(whole - start);
        let base = self.base.as_ptr().expose_provenance() as u64 + HEADER_BYTES as u64;
        (bytes <= whole).then_some([(base + start as u64, first), (base, bytes - first)])
    }

    /// Fills this empty ring with the unread entries of another, as many as fit; it starts at
    /// index 0. Both rings' locks are held, or nobody else knows this one yet.
    pub fn move_from(&self, old: &Ring<'_>) {
        let first = old.consumer();
        let count = old.distance(first, old.producer()).min(self.mask);
        self.init_header();
        for i in 0..count {
            let (from, to) = (old.slot(first.wrapping_add(i)), self.slot(i));
            for offset in (0..from.bytes.min(to.bytes)).step_by(8) {
                to.set_u64(offset, from.u64(offset));
            }
        }
        self.set_producer(count);
    }
}

/// Has the processor fetch what lies at an address, where it knows how.
#[inline]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which changes nothing and cannot fail.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// The same, and take it from others.
#[inline]
fn prefetch_for_writing(address: *mut u8) {
    // The intrinsic gives a plain prefetch unless the whole program needs a newer processor.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which changes nothing and cannot fail.
    unsafe {
        std::arch::asm!(
            "prefetchw [{}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// A slot of a ring. What lies outside of it reads as 0 and cannot be written.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'a> {
    base: NonNull<u8>,
    bytes: usize,
    memory: PhantomData<&'a AtomicU8>,
}

impl<'a> Slot<'a> {
    #[inline]
    fn word32(&self, offset: usize) -> Option<&'a AtomicU32> {
        let is_inside = offset % 4 == 0 && offset <= self.bytes - 4;
        // SAFETY: the word lies in the slot, which lies in the memory that `Ring::new` was promised, and is aligned, for
        // slots are; nothing there has a reference but atomics.
        is_inside
            .then(|| unsafe { AtomicU32::from_ptr(self.base.as_ptr().wrapping_add(offset).cast()) })
    }

    #[inline]
    fn word64(&self, offset: usize) -> Option<&'a AtomicU64> {
        let is_inside = offset % 8 == 0 && offset <= self.bytes - 8;
        // SAFETY: as in `word32`; a slot is aligned to 64, and so a multiple of 8 in it to 8.
        is_inside
            .then(|| unsafe { AtomicU64::from_ptr(self.base.as_ptr().wrapping_add(offset).cast()) })
    }

    /// Bytes of the slot.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Has the processor fetch the slot's beginning: it will be read soon.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self.base.as_ptr());
    }

    /// The same for a slot that will be written soon.
    #[inline]
    pub fn prefetch_for_writing(&self) {
        prefetch_for_writing(self.base.as_ptr());
    }

    /// The 32-bit word at an offset.
    #[inline]
    pub fn u32(&self, offset: usize) -> u32 {
        self.word32(offset).map_or(0, |word| word.load(Relaxed))
    }

    /// The 64-bit word at an offset.
    #[inline]
    pub fn u64(&self, offset: usize) -> u64 {
        self.word64(offset).map_or(0, |word| word.load(Relaxed))
    }

    /// Writes the 32-bit word at an offset.
    #[inline]
    pub fn set_u32(&self, offset: usize, value: u32) {
        if let Some(word) = self.word32(offset) {
            word.store(value, Relaxed);
        }
    }

    /// Writes the 64-bit word at an offset.
    #[inline]
    pub fn set_u64(&self, offset: usize, value: u64) {
        if let Some(word) = self.word64(offset) {
            word.store(value, Relaxed);
        }
    }

    /// Copies bytes to the slot's beginning, as many as it has room for.
    pub fn write_bytes(&self, bytes: &[u8]) {
        for (i, bytes) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.set_u64(i * 8, u64::from_le_bytes(word));
        }
    }

    /// Copies bytes out of the slot, from any offset.
    pub fn read_bytes(&self, offset: usize, out: &mut [u8]) {
        for (i, byte) in out.iter_mut().enumerate() {
            let word = self.u32((offset + i) & !3);
            *byte = word.to_le_bytes()[(offset + i) & 3];
        }
    }

    /// The address of a byte in this process, for the system to copy from; `None` if not all of
    /// `length` bytes from there lie in the slot.
    #[inline]
    pub fn address(&self, offset: usize, length: usize) -> Option<u64> {
        let end = offset.checked_add(length)?;
        (end <= self.bytes).then(|| self.base.as_ptr().expose_provenance() as u64 + offset as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// Memory of a ring, aligned as in the arena.
    struct Memory(Vec<AlignedBytes>);

    #[derive(Clone)]
    #[repr(align(64))]
    struct AlignedBytes([u8; 64]);

    impl Memory {
        fn new(mask: u32, log2_slot: u32) -> Self {
            let blocks = bytes(mask, log2_slot).unwrap().div_ceil(64);
            Self(vec![AlignedBytes([0xee; 64]); blocks])
        }

        fn ring(&mut self, mask: u32, log2_slot: u32) -> Ring<'_> {
            assert!(bytes(mask, log2_slot).unwrap() <= self.0.len() * 64);
            // SAFETY: so many bytes are there, aligned, and borrowed for the ring alone.
            unsafe { Ring::new(self.0.as_mut_ptr().cast(), mask, log2_slot) }
        }
    }

    #[test]
    fn sizes_are_those_of_the_kernel() {
        // max_send_wr 1 with slots of 256 bytes, max_recv_wr 1000 with slots of 64.
        assert_eq!(bytes(1, 8).unwrap().next_multiple_of(4096), 4096);
        assert_eq!(bytes(1023, 6).unwrap().next_multiple_of(4096), 69632);
        assert_eq!(bytes(0, 6), Some(384 + 64));
        for (mask, log2_slot) in [(2, 6), (u32::MAX, 6), (1 << 21, 6), (1, 5), (1, 13)] {
            assert_eq!(bytes(mask, log2_slot), None, "{mask} {log2_slot}");
        }
    }

    #[test]
    fn the_header_is_where_the_provider_reads() {
        let mut memory = Memory::new(7, 6);
        let ring = memory.ring(7, 6);
        ring.init_header();
        ring.set_producer(5);
        ring.set_consumer(3);
        let word = |block: usize, at: usize| {
            u32::from_le_bytes(memory.0[block].0[at..at + 4].try_into().unwrap())
        };
        assert_eq!([word(0, 0), word(0, 4), word(2, 0), word(4, 0)], [6, 7, 5, 3]);
    }

    #[test]
    fn nothing_outside_a_slot_can_be_reached() {
        let mut memory = Memory::new(1, 6);
        let ring = memory.ring(1, 6);
        let (first, second) = (ring.slot(0), ring.slot(1));
        second.set_u64(0, 7);
        first.set_u64(64, 1);
        first.set_u32(64, 1);
        first.set_u64(60, 1);
        assert_eq!(second.u64(0), 7);
        assert_eq!((first.u64(64), first.u32(64), first.u64(usize::MAX - 7)), (0, 0, 0));
        assert_eq!(first.address(60, 4).unwrap() + 4, second.address(0, 1).unwrap());
        assert_eq!(first.address(60, 5), None);
        assert_eq!(first.address(usize::MAX, 2), None);
        let mut out = [1; 8];
        first.read_bytes(60, &mut out);
        assert_eq!(out[4..], [0; 4]);
    }

    #[test]
    fn stretches_go_around_the_end() {
        let mut memory = Memory::new(3, 6);
        let ring = memory.ring(3, 6);
        let at = |index| ring.slot(index).address(0, 64).unwrap();
        assert_eq!(ring.stretches(1, 100), Some([(at(1), 100), (at(0), 0)]));
        assert_eq!(ring.stretches(6, 200), Some([(at(2), 128), (at(0), 72)]));
        assert_eq!(ring.stretches(3, 256), Some([(at(3), 64), (at(0), 192)]));
        assert_eq!(ring.stretches(0, 257), None);
    }

    #[test]
    fn bytes_are_read_from_any_offset() {
        let mut memory = Memory::new(0, 6);
        let slot = memory.ring(0, 6).slot(0);
        slot.set_u64(8, u64::from_le_bytes(*b"abcdefgh"));
        let mut out = [0; 5];
        slot.read_bytes(10, &mut out);
        assert_eq!(&out, b"cdefg");
    }

    #[derive(Clone, Debug)]
    enum Operation {
        Put(u64),
        Take,
        Move(u32),
        /// The other side writes nonsense instead of an index, and mends it.
        Disturb(u32),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            4 => any::<u64>().prop_map(Operation::Put),
            3 => Just(Operation::Take),
            1 => (0..5u32).prop_map(Operation::Move),
            1 => any::<u32>().prop_map(Operation::Disturb),
        ]
    }

    proptest! {
        #[test]
        fn behaves_as_a_bounded_queue(
            log2 in 0..5u32,
            operations in proptest::collection::vec(operation(), 0..200),
        ) {
            let mut mask = (1 << log2) - 1;
            let mut memory = Memory::new(mask, 6);
            memory.ring(mask, 6).init_header();
            let mut model = VecDeque::new();
            for operation in operations {
                let ring = memory.ring(mask, 6);
                prop_assert_eq!(ring.unread() as usize, model.len());
                prop_assert_eq!(ring.is_full(), model.len() == mask as usize);
                match operation {
                    Operation::Put(value) if !ring.is_full() => {
                        let at = ring.producer();
                        ring.slot(at).set_u64(0, value);
                        ring.set_producer(ring.advance(at, 1));
                        model.push_back(value);
                    }
                    Operation::Take if ring.unread() > 0 => {
                        let at = ring.consumer();
                        prop_assert_eq!(Some(ring.slot(at).u64(0)), model.pop_front());
                        ring.set_consumer(ring.advance(at, 1));
                    }
                    Operation::Move(log2) if model.len() < 1 << log2 => {
                        let new_mask = (1 << log2) - 1;
                        let mut new = Memory::new(new_mask, 7);
                        // Slots of another size, as after a change of max_sge.
                        new.ring(new_mask, 7).move_from(&ring);
                        let mut back = Memory::new(new_mask, 6);
                        back.ring(new_mask, 6).move_from(&new.ring(new_mask, 7));
                        memory = back;
                        mask = new_mask;
                    }
                    Operation::Disturb(nonsense) => {
                        let (producer, consumer) = (ring.producer(), ring.consumer());
                        ring.header(header::PRODUCER).store(nonsense, Release);
                        ring.header(header::CONSUMER).store(nonsense.rotate_left(7), Release);
                        ring.header(header::MASK).store(nonsense, Release);
                        prop_assert_eq!(ring.producer(), nonsense & mask);
                        prop_assert_eq!(ring.consumer(), nonsense.rotate_left(7) & mask);
                        prop_assert!(ring.unread() <= mask);
                        // A side that goes on from an index of its own is led around once at most, and
                        // what is moved elsewhere fits there.
                        prop_assert!(ring.distance(consumer, ring.producer()) <= mask);
                        prop_assert_eq!(
                            ring.slot(nonsense).address(0, 64),
                            ring.slot(nonsense & mask).address(0, 64)
                        );
                        let mut other = Memory::new(mask / 2, 6);
                        let smaller = other.ring(mask / 2, 6);
                        smaller.move_from(&ring);
                        prop_assert_eq!(smaller.unread(), ring.unread().min(mask / 2));
                        ring.header(header::MASK).store(mask, Release);
                        ring.set_producer(producer);
                        ring.set_consumer(consumer);
                    }
                    _ => {}
                }
            }
        }
    }
}
