//! Counts of what a queue pair has sent and received, and of its errors: the daemon makes
//! the counters of ports of it.
//!
//! The owner of the lock of a half of the queue pair counts there, by loads and stores in the cache
//! line that it writes anyway. [`Event`]s are seldom, and are counted without a lock.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use soft_hca_roce::transport::events::Event;

use crate::arena::entry::{Field, Word};

/// Counts of what a half of a queue pair has sent or received, or additions to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets of requests.
    pub packets: u64,
    /// Their octets, without what the link layer has around them: from the LRH, or from the
    /// Ethernet header, to the ICRC.
    pub octets: u64,
    /// Those of the packets that are for a multicast group.
    pub multicast: u64,
    /// Messages that a receive work request is for: sends.
    pub sends: u64,
    /// Packets that answer requests: acknowledgements and read responses.
    pub answers: u64,
    /// Octets of the answers.
    pub answer_octets: u64,
}

impl Tally {
    /// Both together.
    #[inline]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::wrapping_add)
    }

    /// The additions since `before`.
    #[inline]
    pub fn since(self, before: Self) -> Self {
        self.with(before, u64::wrapping_sub)
    }

    #[inline]
    fn with(self, other: Self, each: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            packets: each(self.packets, other.packets),
            octets: each(self.octets, other.octets),
            multicast: each(self.multicast, other.multicast),
            sends: each(self.sends, other.sends),
            answers: each(self.answers, other.answers),
            answer_octets: each(self.answer_octets, other.answer_octets),
        }
    }
}

/// The same in an entry of the arena.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Traffic {
    packets: AtomicU64,
    octets: AtomicU64,
    multicast: AtomicU64,
    sends: AtomicU64,
    answers: AtomicU64,
    answer_octets: AtomicU64,
}

impl Traffic {
    /// Adds to it. The caller has the lock of this half of the queue pair.
    #[inline]
    pub fn add(&self, more: &Tally) {
        add(&self.packets, more.packets);
        add(&self.octets, more.octets);
        add(&self.sends, more.sends);
        add(&self.answers, more.answers);
        add(&self.answer_octets, more.answer_octets);
        // Seldom anything.
        if more.multicast != 0 {
            add(&self.multicast, more.multicast);
        }
    }

    /// Its value now.
    pub fn load(&self) -> Tally {
        Tally {
            packets: self.packets.load(Relaxed),
            octets: self.octets.load(Relaxed),
            multicast: self.multicast.load(Relaxed),
            sends: self.sends.load(Relaxed),
            answers: self.answers.load(Relaxed),
            answer_octets: self.answer_octets.load(Relaxed),
        }
    }

    fn fields(&self) -> [&AtomicU64; 6] {
        let Self { packets, octets, multicast, sends, answers, answer_octets } = self;
        [packets, octets, multicast, sends, answers, answer_octets]
    }
}

#[inline]
fn add(field: &AtomicU64, more: u64) {
    field.store(field.load(Relaxed).wrapping_add(more), Relaxed);
}

impl Field for Traffic {
    fn reset(&self) {
        self.fields().into_iter().for_each(Field::reset);
    }

    fn words(&self) -> Vec<Word<'_>> {
        self.fields().map(Word::Long).to_vec()
    }
}

/// How often each [`Event`] has been.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Events([AtomicU64; Event::COUNT]);

impl Events {
    /// It has been, so many times.
    pub fn count(&self, event: Event, times: u64) {
        self.0[event as usize].fetch_add(times, Relaxed);
    }

    /// How often each has been, by [`Event`].
    pub fn load(&self) -> [u64; Event::COUNT] {
        std::array::from_fn(|event| self.0[event].load(Relaxed))
    }
}

impl Field for Events {
    fn reset(&self) {
        self.0.iter().for_each(Field::reset);
    }

    fn words(&self) -> Vec<Word<'_>> {
        self.0.iter().map(Word::Long).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;
    use crate::arena::{Cq, Qp};

    #[test]
    fn what_is_added_is_there_until_the_entry_is_taken_again() {
        let traffic = Traffic::default();
        let tally =
            Tally { packets: 1, octets: 2, multicast: 3, sends: 4, answers: 5, answer_octets: 6 };
        traffic.add(&tally);
        traffic.add(&tally);
        assert_eq!(traffic.load(), tally.plus(tally));
        assert_eq!(traffic.load().since(tally), tally);
        traffic.reset();
        assert_eq!(traffic.load(), Tally::default());
        let events = Events::default();
        events.count(Event::Retried, 7);
        assert_eq!(events.load(), [0, 0, 0, 0, 0, 0, 0, 7]);
    }

    /// A requester writes one cache line of the queue pair, and a responder another; a third is read by
    /// both.
    #[test]
    fn each_half_has_a_cache_line() {
        const LINE: usize = 64;
        let sends = [
            offset_of!(Qp, send_lock),
            offset_of!(Qp, sq_consumer),
            offset_of!(Qp, sq_psn),
            offset_of!(Qp, sq_in_flight),
            offset_of!(Qp, sent),
            offset_of!(Qp, sent) + size_of::<Traffic>() - 1,
        ];
        assert_eq!(sends.map(|offset| offset / LINE), [1; 6]);
        let receives = [
            offset_of!(Qp, recv_lock),
            offset_of!(Qp, rq_consumer),
            offset_of!(Qp, rq_posted),
            offset_of!(Qp, rq_psn),
            offset_of!(Qp, received),
            offset_of!(Qp, received) + size_of::<Traffic>() - 1,
        ];
        assert_eq!(receives.map(|offset| offset / LINE), [2; 6]);
        let both = [
            offset_of!(Qp, live),
            offset_of!(Qp, wait),
            offset_of!(Qp, sq),
            offset_of!(Qp, max_recv_sge),
        ];
        assert_eq!(both.map(|offset| offset / LINE), [0; 4]);
    }

    /// The same of a completion queue: who adds completions, what is only read, and who polls.
    #[test]
    fn a_completion_queue_has_three_cache_lines() {
        const LINE: usize = 64;
        let lines = [
            offset_of!(Cq, lock),
            offset_of!(Cq, eager_free),
            offset_of!(Cq, ring),
            offset_of!(Cq, proc),
            offset_of!(Cq, eager),
            offset_of!(Cq, polls_eager),
            offset_of!(Cq, eager_lock),
        ];
        assert_eq!(lines.map(|offset| offset / LINE), [0, 0, 1, 1, 1, 1, 2]);
    }
}
