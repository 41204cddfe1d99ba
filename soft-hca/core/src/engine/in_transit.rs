//! Bytes that are on their way between queue pairs whose programs are run strictly: taken from where they come from
//! earlier, or brought to where they go later, than the completions of their requests tell.
//!
//! Only the daemon has them. A queue pair's are taken out while they are used.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::engine::segments::{Segment, SegmentList};

/// All that is on its way in a fabric, by the number of the queue pair that sends it.
#[derive(Debug, Default)]
pub struct InTransit(Mutex<BTreeMap<u32, Transit>>);

/// The part of one queue pair.
#[derive(Debug, Default)]
pub(super) struct Transit {
    /// The RDMA write or read at the head, if some of its bytes were moved.
    pub begun: Option<Begun>,
    /// The requests behind the one at the head that have overtaken it, without a gap.
    pub ahead: VecDeque<Ahead>,
    /// Writes that have completed, in their order.
    pub late: Vec<Late>,
}

/// A request whose bytes come in pieces.
#[derive(Debug)]
pub(super) struct Begun {
    /// Its index in the send queue.
    pub index: u32,
    /// The pieces that have not come: where each begins, and how long it is.
    pub left: Vec<(u64, u64)>,
    /// Of an RDMA write that some bytes have come of, all others of their packets and of those before.
    pub packets: Option<Late>,
}

/// A request that has begun before one in front of it was answered.
#[derive(Debug)]
pub(super) struct Ahead {
    /// Its index in the send queue.
    pub index: u32,
    /// Its bytes; none of a read.
    pub bytes: Option<Vec<u8>>,
    /// They are where they go, too.
    pub has_landed: bool,
}

/// A write that its program has the completion of, and that is not in the peer's memory.
#[derive(Debug)]
pub(super) struct Late {
    /// Index of the process that it goes to.
    pub proc: usize,
    /// Its places there.
    pub to: SegmentList,
    pub bytes: Vec<u8>,
    /// The [time](crate::engine::env::Env::put_off_now_ns) at which it is there.
    pub due_ns: u64,
    /// It may be there before those in front of it.
    pub is_relaxed: bool,
}

impl Transit {
    /// The request at an index is at the head: forgets those before.
    pub(super) fn reach(&mut self, head: u32, next: u32) {
        if self.begun.as_ref().is_some_and(|begun| begun.index != head) {
            self.begun = None;
        }
        match self.ahead.iter().position(|ahead| ahead.index == head) {
            Some(passed) => drop(self.ahead.drain(..passed)),
            None if self.ahead.front().is_some_and(|ahead| ahead.index == next) => {}
            None => self.ahead.clear(),
        }
    }

    /// The request at an index, if it has overtaken others.
    pub(super) fn ahead_at(&self, index: u32) -> Option<&Ahead> {
        self.ahead.front().filter(|ahead| ahead.index == index)
    }

    fn is_empty(&self) -> bool {
        self.begun.is_none() && self.ahead.is_empty() && self.late.is_empty()
    }
}

impl Late {
    /// Whether it goes to bytes of a stretch of a process's memory.
    fn is_for(&self, proc: usize, of: Segment) -> bool {
        let is_shared = |part: Segment| {
            part.addr < of.addr.saturating_add(of.length)
                && of.addr < part.addr.saturating_add(part.length)
        };
        self.proc == proc && self.to.parts().any(|(part, _)| is_shared(part))
    }
}

impl InTransit {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Transit>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether some bytes of a queue pair's RDMA operations have come to their memory, and others have not.
    pub fn has_any_of(&self, qpn: u32) -> bool {
        self.lock().contains_key(&qpn)
    }

    /// Takes a queue pair's part out.
    pub(super) fn take(&self, qpn: u32) -> Transit {
        self.lock().remove(&qpn).unwrap_or_default()
    }

    /// Puts it back.
    pub(super) fn put(&self, qpn: u32, transit: Transit) {
        if !transit.is_empty() {
            self.lock().insert(qpn, transit);
        }
    }

    /// Takes the bytes that come yet if the write at the head of a queue pair's send queue is cut off: a packet is there as a
    /// whole, and none is without those before.
    pub(super) fn take_packets(&self, qpn: u32) -> Option<Late> {
        self.lock().get_mut(&qpn)?.begun.as_mut()?.packets.take()
    }

    /// Takes all writes that are late.
    pub(super) fn take_late(&self) -> Vec<Late> {
        self.lock().values_mut().flat_map(|transit| transit.late.drain(..)).collect()
    }

    /// Takes the late writes of a queue pair that are due, with those in front of them that they may not pass, and says
    /// when the next one is.
    pub(super) fn take_due(&self, qpn: u32, now_ns: u64) -> (Vec<Late>, Option<u64>) {
        let mut transits = self.lock();
        let Some(Transit { late, .. }) = transits.get_mut(&qpn) else { return (Vec::new(), None) };
        let is_due = |late: &Late| late.due_ns <= now_ns;
        let in_order = late.iter().rposition(|late| is_due(late) && !late.is_relaxed);
        let in_order = in_order.map_or(0, |last| last + 1);
        let mut due: Vec<_> = late.drain(..in_order).collect();
        let (others, left): (Vec<_>, Vec<_>) = late.drain(..).partition(is_due);
        due.extend(others);
        *late = left;
        (due, late.iter().map(|late| late.due_ns).min())
    }

    /// Takes a queue pair's late writes up to the last one, of each, that goes to bytes of a stretch of memory.
    pub(super) fn take_late_at(&self, proc: usize, of: Segment) -> Vec<Late> {
        let take = |transit: &mut Transit| {
            let last = transit.late.iter().rposition(|late| late.is_for(proc, of));
            transit.late.drain(..last.map_or(0, |last| last + 1)).collect::<Vec<_>>()
        };
        self.lock().values_mut().flat_map(take).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names, a byte each, of the writes that are due at a time, and when the next one is.
    fn due(in_transit: &InTransit, now_ns: u64) -> (Vec<u8>, Option<u64>) {
        let (due, next) = in_transit.take_due(7, now_ns);
        (due.iter().map(|late| late.bytes[0]).collect(), next)
    }

    #[test]
    fn only_relaxed_writes_pass_others() {
        let in_transit = InTransit::default();
        let write = |(name, due_ns, is_relaxed)| Late {
            proc: 0,
            to: SegmentList::new(),
            bytes: vec![name],
            due_ns,
            is_relaxed,
        };
        let writes = [(1, 40, false), (2, 10, true), (3, 50, true), (4, 20, false), (5, 60, true)];
        let late = writes.map(write).into();
        in_transit.put(7, Transit { late, ..Transit::default() });
        assert_eq!(due(&in_transit, 5), (vec![], Some(10)));
        assert_eq!(due(&in_transit, 10), (vec![2], Some(20)));
        assert_eq!(due(&in_transit, 20), (vec![1, 3, 4], Some(60)));
        assert_eq!(due(&in_transit, 60), (vec![5], None));
        assert_eq!(due(&in_transit, 60), (vec![], None));
    }
}
