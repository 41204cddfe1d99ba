//! Work requests that were posted, for whoever watches. A doorbell tells of sends. Nobody tells of
//! receives: they are found when their process makes a call, or a message is about to take one.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use crate::arena::Qp;
use crate::engine::Actor;
use crate::engine::cursor::SendCursors;
use crate::engine::observer::{Event, ReceivePosted, ReceiveQueue, SendPosted};
use crate::ring::Ring;
use crate::uapi::rxe::{MAX_SGE, RecvWqe, SendWqe};
use crate::uapi::verbs::{opcode, qp_type, send_flag};

/// The slots of a ring that are in use and were not told: first one and how many. They count as
/// told from now on.
fn untold(ring: &Ring<'_>, consumer: u32, seen: &AtomicU32) -> (u32, u32) {
    let consumer = consumer & ring.mask();
    let producer = ring.producer();
    let posted = ring.distance(consumer, producer);
    let before = seen.load(Acquire);
    let first = before & ring.mask();
    // Nobody may have watched so far.
    let first = if ring.distance(consumer, first) <= posted { first } else { consumer };
    match seen.compare_exchange(before, producer, AcqRel, Acquire) {
        Ok(_) => (first, ring.distance(first, producer)),
        // Somebody else tells them at this moment.
        Err(_) => (first, 0),
    }
}

impl Actor<'_> {
    /// Tells what is in a queue pair's queues and was not told yet: for its own process.
    #[cold]
    pub(super) fn tell_posted(&self, qp: &Qp, qpn: u32) {
        self.tell_receives(qp, qpn, false);
        let Some(ring) = self.send_ring(qp) else { return };
        let (first, count) = untold(&ring, SendCursors::of(qp, &ring).completed, &qp.seen_sends);
        let kind = qp.qp_type.load(Acquire);
        for index in 0..count {
            let wqe = SendWqe::read(ring.slot(first.wrapping_add(index)));
            let is_local = matches!(wqe.opcode, opcode::LOCAL_INV | opcode::BIND_MW);
            let has_list = wqe.flags & send_flag::INLINE == 0
                && !matches!(wqe.opcode, opcode::ATOMIC_WRITE | opcode::FLUSH)
                && !is_local;
            let elements = (wqe.num_sge as usize).min(wqe.room()).min(MAX_SGE);
            let mut dgid = [0; 16];
            let ah = (wqe.datagram().ah as usize).checked_sub(1);
            if kind == qp_type::UD {
                if let Some(ah) = ah.and_then(|index| self.arena.ahs.get(index)) {
                    dgid = std::array::from_fn(|index| ah.dgid[index].load(Acquire));
                }
            }
            self.observe(|| {
                Event::SendPosted(SendPosted {
                    proc: qp.proc.load(Acquire),
                    qpn,
                    qp_type: kind,
                    wqe,
                    elements: if has_list { elements } else { 0 },
                    dgid,
                })
            });
        }
    }

    /// Tells the receives that a queue pair may use and that were not told yet.
    #[cold]
    pub(super) fn tell_receives(&self, qp: &Qp, qpn: u32, at_message: bool) {
        let (place, consumer, seen, proc, queue) = match qp.srq.load(Acquire).checked_sub(1) {
            None => (&qp.rq, &qp.rq_consumer, &qp.seen_receives, &qp.proc, ReceiveQueue::Own(qpn)),
            Some(index) => {
                let Some(srq) = self.arena.srqs.get(index as usize) else { return };
                let queue = ReceiveQueue::Shared(index);
                (&srq.ring, &srq.consumer, &srq.seen_receives, &srq.proc, queue)
            }
        };
        let Some(ring) = self.arena.ring(place) else { return };
        let (first, count) = untold(&ring, consumer.load(Acquire), seen);
        for index in 0..count {
            let wqe = RecvWqe::read(ring.slot(first.wrapping_add(index)));
            let proc = proc.load(Acquire);
            self.observe(|| Event::ReceivePosted(ReceivePosted { proc, queue, wqe, at_message }));
        }
    }

    /// Tells what was posted to queue pairs of this process: it makes a call.
    #[cold]
    pub fn tell_posted_to(&self, qpns: impl IntoIterator<Item = u32>) {
        for qpn in qpns {
            if let Some(qp) = self.arena.qp(qpn) {
                self.tell_receives(qp, qpn, false);
            }
        }
    }
}
