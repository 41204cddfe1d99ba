//! Completion queues: adding to them and arming them. `rxe_cq.c`.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;

use crate::arena::Cq;
use crate::engine::after::After;
use crate::engine::{Actor, Async};
use crate::uapi::rxe::{Cqe, status};

/// Values of `Cq::armed`.
const NOT_ARMED: u32 = 0;
const FOR_SOLICITED: u32 = 1;
const FOR_ANY: u32 = 2;

impl Actor<'_> {
    /// REQ_NOTIFY_CQ: the next completion that is added gives one event. Completions that are
    /// already there give none. "Any" is the stronger wish and stays.
    pub fn arm(&self, cq: u32, solicited_only: bool) {
        let Some(cq) = self.arena.cqs.get(cq as usize) else { return };
        if solicited_only {
            // Fails if it is armed already, for this or for more.
            let _ = cq.armed.compare_exchange(NOT_ARMED, FOR_SOLICITED, AcqRel, Relaxed);
        } else {
            cq.armed.store(FOR_ANY, Release);
        }
        // The program polls once more after this. Either its poll sees the producer index that
        // `add` has published, or `add` sees the queue armed: both sides write, then read what
        // the other writes, and a fence between the two keeps both reads from being early.
        fence(SeqCst);
    }

    /// Adds a completion, wakes the channel if the queue is armed for it. With the queue full the
    /// completion is lost, which is an asynchronous event.
    pub fn add_completion(&self, cq: u32, cqe: &Cqe, solicited: bool) {
        let mut after = After::default();
        self.complete(cq, cqe, solicited, &mut after);
        self.settle(&mut after);
    }

    /// The same; waking is left for later. The caller may hold locks of queue pairs.
    pub(super) fn complete(&self, index: u32, cqe: &Cqe, solicited: bool, after: &mut After) {
        let Some(cq) = self.arena.cqs.get(index as usize) else { return };
        let _guard = self.lock(&cq.lock);
        if cq.live.load(Acquire) == 0 {
            return;
        }
        let Some(ring) = self.arena.ring(&cq.ring) else { return };
        let producer = ring.producer();
        if ring.advance(producer, 1) == ring.consumer() {
            cq.overflows.fetch_add(1, AcqRel);
            after.raised.push(Async::CqOverflow(index));
            return;
        }
        cqe.write(&ring.slot(producer));
        ring.set_producer(ring.advance(producer, 1));
        // See `arm`.
        fence(SeqCst);
        if cq.armed.load(Relaxed) != NOT_ARMED {
            self.notify(cq, solicited || cqe.status != status::SUCCESS, after);
        }
    }

    /// The queue was armed. If it was for this completion, there is one event, and no more.
    fn notify(&self, cq: &Cq, is_solicited: bool, after: &mut After) {
        let fires = |armed| armed == FOR_ANY || (armed == FOR_SOLICITED && is_solicited);
        // With the lock held nobody else disarms it.
        if !fires(cq.armed.load(Acquire)) {
            return;
        }
        let channel = cq.channel.load(Acquire).checked_sub(1);
        let entry = channel.and_then(|channel| self.arena.channels.get(channel as usize));
        let generation = entry.map_or(0, |entry| entry.live.load(Acquire));
        // First the event, then the token that makes somebody look for it. Who dies between the
        // event and the rest leaves something that the daemon finds.
        if generation != 0 {
            cq.pending_events.fetch_add(1, AcqRel);
        }
        cq.armed.store(NOT_ARMED, Release);
        if let Some(channel) = channel.filter(|_| generation != 0) {
            after.wakes.push((channel, generation));
        }
    }

    /// Wakes the channels of completion queues that have unread events once more. For the daemon,
    /// after the end of a process: it may have died between an event and its token. A token too
    /// many does no harm.
    pub fn wake_again(&self, cqs: impl IntoIterator<Item = usize>) {
        for cq in cqs.into_iter().filter_map(|index| self.arena.cqs.get(index)) {
            if cq.live.load(Acquire) != 0
                && cq.pending_events.load(Acquire) != 0
                && let Some(channel) = cq.channel.load(Acquire).checked_sub(1)
                && let Some(entry) = self.arena.channels.get(channel as usize)
            {
                self.env.wake_channel(channel, entry.live.load(Acquire));
            }
        }
    }
}
