//! Completion queues: adding to them and arming them. `rxe_cq.c`.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;

use crate::arena::Cq;
use crate::engine::after::{After, Wake};
use crate::engine::flush::Retiring;
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

    /// Has the processor fetch the place of the next completion.
    pub(super) fn prefetch_completion(&self, cq: u32) {
        let Some(cq) = self.arena.cqs.get(cq as usize) else { return };
        if let Some(ring) = self.arena.ring(&cq.ring) {
            ring.slot(ring.producer()).prefetch_for_writing();
        }
    }

    /// The same; waking is left for later. The caller may hold locks of queue pairs.
    pub(super) fn complete(&self, index: u32, cqe: &Cqe, solicited: bool, after: &mut After) {
        self.complete_all(index, [(*cqe, solicited)], None, after);
    }

    /// Adds completions, with whether each is solicited. They appear together: what the one who
    /// polls looks at is written once. In the next step their requests have been retired.
    pub(super) fn complete_all(
        &self,
        index: u32,
        completions: impl IntoIterator<Item = (Cqe, bool)>,
        retiring: Option<Retiring<'_>>,
        after: &mut After,
    ) {
        let Some(cq) = self.arena.cqs.get(index as usize) else { return };
        let _guard = self.lock(&cq.lock);
        if cq.live.load(Acquire) == 0 {
            return;
        }
        let Some(ring) = self.arena.ring(&cq.ring) else { return };
        let first = ring.producer();
        let mut producer = first;
        let mut room = cq.room.load(Acquire).min(ring.mask());
        let mut is_solicited = false;
        for (cqe, solicited) in completions {
            if room == 0 {
                room = ring.mask() - ring.distance(ring.consumer(), producer);
            }
            if room == 0 {
                cq.overflows.fetch_add(1, AcqRel);
                after.raised.push(Async::CqOverflow(index));
                continue;
            }
            cqe.write(&ring.slot(producer));
            is_solicited |= solicited || cqe.status != status::SUCCESS;
            producer = ring.advance(producer, 1);
            room -= 1;
        }
        if producer == first {
            return;
        }
        cq.room.store(room, Release);
        ring.set_producer(producer);
        drop(retiring);
        // Without a channel there is nobody to tell.
        if cq.channel.load(Acquire) == 0 {
            return;
        }
        // See `arm`.
        fence(SeqCst);
        if cq.armed.load(Relaxed) != NOT_ARMED {
            self.notify(index, cq, is_solicited, after);
        }
    }

    /// The queue was armed. If it was for this completion, there is one event, and no more.
    fn notify(&self, index: u32, cq: &Cq, is_solicited: bool, after: &mut After) {
        let fires = |armed| armed == FOR_ANY || (armed == FOR_SOLICITED && is_solicited);
        if !fires(cq.armed.load(Acquire)) {
            return;
        }
        let channel = cq.channel.load(Acquire).checked_sub(1);
        let entry = channel.and_then(|channel| self.arena.channels.get(channel as usize));
        let generation = entry.map_or(0, |entry| entry.live.load(Acquire));
        // Who dies from here on until the token is given leaves a debt that the daemon finds.
        cq.owes_token.store(self.me as u32 + 1, Release);
        let disarmed =
            cq.armed.fetch_update(AcqRel, Acquire, |armed| fires(armed).then_some(NOT_ARMED));
        if disarmed.is_err() || generation == 0 {
            cq.owes_token.store(0, Release);
            return;
        }
        // First the event, then the token that makes somebody look for it.
        cq.pending_events.fetch_add(1, AcqRel);
        if let Some(channel) = channel {
            after.wakes.push(Wake { cq: index, channel, generation });
        }
    }

    /// Gives the token that belongs to an event.
    pub(super) fn wake(&self, wake: Wake) {
        self.env.wake_channel(wake.channel, wake.generation);
        if let Some(cq) = self.arena.cqs.get(wake.cq as usize) {
            // Another process may owe the next one by now.
            let _ = cq.owes_token.compare_exchange(self.me as u32 + 1, 0, AcqRel, Relaxed);
        }
    }

    /// Gives the tokens that process `dead` has owed when it died. For the daemon. Not more: who
    /// finds a channel readable may block in reading the event that is not there.
    pub fn wake_for(&self, dead: usize, cqs: impl IntoIterator<Item = usize>) {
        let owed = dead as u32 + 1;
        for cq in cqs.into_iter().filter_map(|index| self.arena.cqs.get(index)) {
            if cq.owes_token.compare_exchange(owed, 0, AcqRel, Relaxed).is_ok()
                && cq.live.load(Acquire) != 0
                && let Some(channel) = cq.channel.load(Acquire).checked_sub(1)
                && let Some(entry) = self.arena.channels.get(channel as usize)
            {
                // It may have died before it counted the event.
                let _ = cq.pending_events.compare_exchange(0, 1, AcqRel, Relaxed);
                self.env.wake_channel(channel, entry.live.load(Acquire));
            }
        }
    }
}
