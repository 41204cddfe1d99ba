//! How many work requests are in a queue. A send's place is free again when a completion of it, or of a signaled
//! send behind it, has been polled, and a receive's when its own has been: so it is with providers of
//! adapters, whose queues end where the program has asked for.
//!
//! Polls of extended queues (`ibv_start_poll`) cannot be followed: what completes there has no limit but the
//! provider's. Nor has a queue pair of which a completion has failed, until it is reset: all that it has
//! comes back.

use std::collections::{HashMap, VecDeque};
use std::sync::MutexGuard;

use soft_hca_core::engine::ReceiveQueue;

use crate::client::of_process::OfProcess;

/// The capacity that was requested for a queue pair.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestedDepth {
    /// Sends.
    pub max_send_wr: u32,
    /// The same of receives; 0 with a shared receive queue.
    pub max_recv_wr: u32,
    /// Elements of a send.
    pub max_send_sge: u32,
    /// Elements of a receive.
    pub max_recv_sge: u32,
    /// Bytes of inline data.
    pub max_inline_data: u32,
    /// Whether each send is signaled.
    pub signals_all: bool,
    /// Whether polls of the queues for sends and for receives are seen.
    pub is_followed: [bool; 2],
    /// Index of its shared receive queue.
    pub srq: Option<u32>,
}

/// A queue pair's queues.
#[derive(Clone, Debug)]
struct QueuePairDepth {
    requested: RequestedDepth,
    /// Sends that are in the queue: the oldest first.
    sends: VecDeque<Send>,
    /// Receives that are in the queue.
    receives: u32,
    /// Receives that were posted ever.
    posted_receives: u32,
    has_failed: bool,
}

/// A send in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Send {
    pub wr_id: u64,
    pub is_signaled: bool,
}

/// A shared receive queue: what was asked for, and what is in it.
#[derive(Clone, Copy, Debug)]
struct Shared {
    max_wr: u32,
    receives: u32,
}

/// The queues of this process.
#[derive(Debug, Default)]
pub(crate) struct Depths {
    /// By number.
    queue_pairs: HashMap<u32, QueuePairDepth>,
    /// By index.
    shared: HashMap<u32, Shared>,
}

/// A completion that was polled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Polled {
    pub qpn: u32,
    pub wr_id: u64,
    pub has_failed: bool,
    /// Its opcode says so; valid of a successful one only.
    pub is_receive: bool,
}

/// All queues, locked.
pub(crate) fn depths() -> MutexGuard<'static, Depths> {
    static DEPTHS: OfProcess<Depths> = OfProcess::new();
    DEPTHS.lock()
}

impl Depths {
    pub(crate) fn begin(&mut self, qpn: u32, requested: RequestedDepth) {
        let sends = VecDeque::new();
        self.queue_pairs.insert(
            qpn,
            QueuePairDepth { requested, sends, receives: 0, posted_receives: 0, has_failed: false },
        );
    }

    /// The capacity that was requested for a queue pair.
    pub(crate) fn requested(&self, qpn: u32) -> Option<RequestedDepth> {
        self.queue_pairs.get(&qpn).map(|queue_pair| queue_pair.requested)
    }

    /// How many receives were posted to a queue pair.
    pub(crate) fn posted_receives(&self, qpn: u32) -> u32 {
        self.queue_pairs.get(&qpn).map_or(0, |queue_pair| queue_pair.posted_receives)
    }

    /// So many receives were posted to a queue.
    pub(crate) fn posted(&mut self, queue: ReceiveQueue, count: usize) {
        let ReceiveQueue::Own(qpn) = queue else { return };
        if let Some(queue_pair) = self.queue_pairs.get_mut(&qpn) {
            queue_pair.posted_receives = queue_pair.posted_receives.wrapping_add(count as u32);
        }
    }

    /// A queue pair is gone. Completions of it may be polled still, and give back the receives of a shared queue: one
    /// with such a queue is remembered until another one has its number.
    pub(crate) fn forget(&mut self, qpn: u32) {
        if self.requested(qpn).is_some_and(|requested| requested.srq.is_none()) {
            self.queue_pairs.remove(&qpn);
        }
    }

    /// A queue pair is in RESET: its queues are empty.
    pub(crate) fn reset(&mut self, qpn: u32) {
        if let Some(queue_pair) = self.queue_pairs.get_mut(&qpn) {
            queue_pair.sends.clear();
            (queue_pair.receives, queue_pair.has_failed) = (0, false);
        }
    }

    pub(crate) fn begin_shared(&mut self, srq: u32, max_wr: u32) {
        self.shared.insert(srq, Shared { max_wr, receives: 0 });
    }

    pub(crate) fn resize_shared(&mut self, srq: u32, max_wr: u32) {
        if let Some(shared) = self.shared.get_mut(&srq) {
            shared.max_wr = max_wr;
        }
    }

    /// The capacity that was requested for a shared receive queue.
    pub(crate) fn shared(&self, srq: u32) -> Option<u32> {
        self.shared.get(&srq).map(|shared| shared.max_wr)
    }

    /// Takes sends into a queue; gives how many have room there.
    pub(crate) fn post_sends(&mut self, qpn: u32, list: &[Send]) -> usize {
        let Some(queue_pair) = self.queue_pairs.get_mut(&qpn) else { return list.len() };
        if !queue_pair.requested.is_followed[0] || queue_pair.has_failed {
            return list.len();
        }
        let room =
            (queue_pair.requested.max_send_wr as usize).saturating_sub(queue_pair.sends.len());
        let taken = room.min(list.len());
        let signals_all = queue_pair.requested.signals_all;
        queue_pair.sends.extend(
            list[..taken]
                .iter()
                .map(|send| Send { is_signaled: signals_all || send.is_signaled, ..*send }),
        );
        taken
    }

    /// The last `count` of the sends that were taken were not posted after all.
    pub(crate) fn take_back_sends(&mut self, qpn: u32, count: usize) {
        if let Some(queue_pair) = self.queue_pairs.get_mut(&qpn) {
            let left = queue_pair.sends.len().saturating_sub(count);
            queue_pair.sends.truncate(left);
        }
    }

    /// Takes receives into a queue; gives how many have room there.
    pub(crate) fn post_receives(&mut self, queue: ReceiveQueue, count: usize) -> usize {
        let (receives, limit) = match queue {
            ReceiveQueue::Own(qpn) => match self.queue_pairs.get_mut(&qpn) {
                Some(queue_pair)
                    if queue_pair.requested.is_followed[1] && !queue_pair.has_failed =>
                {
                    (&mut queue_pair.receives, queue_pair.requested.max_recv_wr)
                }
                _ => return count,
            },
            ReceiveQueue::Shared(srq) => match self.shared.get_mut(&srq) {
                Some(shared) => (&mut shared.receives, shared.max_wr),
                None => return count,
            },
        };
        let taken = count.min(limit.saturating_sub(*receives) as usize);
        *receives += taken as u32;
        taken
    }

    /// The last `count` of the receives that were taken were not posted after all.
    pub(crate) fn take_back_receives(&mut self, queue: ReceiveQueue, count: usize) {
        let receives = match queue {
            ReceiveQueue::Own(qpn) => self.queue_pairs.get_mut(&qpn).map(|qp| &mut qp.receives),
            ReceiveQueue::Shared(srq) => {
                self.shared.get_mut(&srq).map(|shared| &mut shared.receives)
            }
        };
        if let Some(receives) = receives {
            *receives = receives.saturating_sub(count as u32);
        }
    }

    /// A completion was polled.
    pub(crate) fn polled(&mut self, polled: Polled) {
        let Some(queue_pair) = self.queue_pairs.get_mut(&polled.qpn) else { return };
        let signaled = |send: &Send| send.is_signaled;
        let is_receive = if polled.has_failed {
            queue_pair.has_failed = true;
            // Its opcode says nothing.
            !queue_pair.sends.iter().any(|send| send.wr_id == polled.wr_id)
        } else {
            polled.is_receive
        };
        match (is_receive, queue_pair.requested.srq) {
            (false, _) => {
                let done = queue_pair.sends.iter().position(signaled).map_or(0, |last| last + 1);
                queue_pair.sends.drain(..done);
            }
            (true, None) => queue_pair.receives = queue_pair.receives.saturating_sub(1),
            (true, Some(srq)) => self.take_back_receives(ReceiveQueue::Shared(srq), 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QPN: u32 = 0x11;

    fn depths(max_send_wr: u32) -> Depths {
        let mut depths = Depths::default();
        let requested = RequestedDepth {
            max_send_wr,
            max_recv_wr: 2,
            is_followed: [true; 2],
            ..RequestedDepth::default()
        };
        depths.begin(QPN, requested);
        depths
    }

    fn sends(signaled: &[bool]) -> Vec<Send> {
        (1..).zip(signaled).map(|(wr_id, &is_signaled)| Send { wr_id, is_signaled }).collect()
    }

    fn polled(wr_id: u64, is_receive: bool) -> Polled {
        Polled { qpn: QPN, wr_id, has_failed: false, is_receive }
    }

    #[test]
    fn a_signaled_send_gives_back_those_before_it() {
        let mut depths = depths(4);
        assert_eq!(depths.post_sends(QPN, &sends(&[false, true, false, false, true])), 4);
        assert_eq!(depths.post_sends(QPN, &sends(&[true])), 0);
        depths.polled(polled(2, false));
        // Those two that nobody has signaled stay for ever.
        assert_eq!(depths.post_sends(QPN, &sends(&[false, false, true])), 2);
        assert_eq!(depths.post_sends(QPN, &sends(&[true])), 0);
        depths.take_back_sends(QPN, 1);
        assert_eq!(depths.post_sends(QPN, &sends(&[true, true])), 1);
    }

    #[test]
    fn receives_come_back_one_by_one_and_shared_ones_to_their_queue() {
        let mut depths = depths(1);
        let own = ReceiveQueue::Own(QPN);
        assert_eq!(depths.post_receives(own, 3), 2);
        depths.polled(polled(7, true));
        assert_eq!(depths.post_receives(own, 3), 1);
        depths.begin_shared(5, 3);
        depths.queue_pairs.get_mut(&QPN).unwrap().requested.srq = Some(5);
        let shared = ReceiveQueue::Shared(5);
        assert_eq!(depths.post_receives(shared, 9), 3);
        depths.polled(polled(7, true));
        assert_eq!(depths.post_receives(shared, 9), 1);
        depths.resize_shared(5, 5);
        assert_eq!(depths.post_receives(shared, 9), 2);
    }

    #[test]
    fn receives_of_a_shared_queue_come_back_after_the_queue_pair_has_gone() {
        let mut depths = depths(1);
        depths.begin_shared(6, 2);
        depths.begin(QPN, RequestedDepth { srq: Some(6), ..RequestedDepth::default() });
        assert_eq!(depths.post_receives(ReceiveQueue::Shared(6), 2), 2);
        depths.forget(QPN);
        depths.polled(polled(1, true));
        assert_eq!(depths.post_receives(ReceiveQueue::Shared(6), 2), 1);
    }

    #[test]
    fn a_failure_ends_all_limits_until_the_reset() {
        let mut depths = depths(1);
        assert_eq!(depths.post_sends(QPN, &sends(&[true, true])), 1);
        depths.polled(Polled { has_failed: true, ..polled(1, false) });
        assert_eq!(depths.post_sends(QPN, &sends(&[true, true])), 2);
        depths.reset(QPN);
        assert_eq!(depths.post_sends(QPN, &sends(&[true, true])), 1);
    }
}
