//! Polls of completion queues, while all is recorded. A program that waits by polling does so millions
//! of times in a second: polls that find nothing are counted, and traced as one thing when their thread
//! finds something in that queue, or goes on to what is traced as well.

use std::cell::Cell;

use soft_hca_core::system;
use soft_hca_core::trace::event::Changed;
use soft_hca_core::trace::{About, Site, event};
use zerocopy::IntoBytes;

use crate::client::layout::Wc;
use crate::client::process::Process;
use crate::client::{buffers, receives, site};

/// Queues that a thread polls in turn, each with a count of its own.
const QUEUES: usize = 4;

/// Polls in vain are traced after so many nanoseconds at the latest.
const PERIOD_NS: u64 = 1_000_000_000;

/// Which queue is polled, and for which recording.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Polled {
    /// Index in the arena.
    cq: u32,
    is_extended: bool,
    /// Of the process; a child of `fork` has another.
    process: u32,
    recording: u32,
}

/// Polls of a queue that have found nothing; none if their count is 0.
#[derive(Clone, Copy)]
struct Empty {
    queue: Polled,
    count: u64,
    first: u64,
    last: u64,
    /// Where the first of them was.
    site: Site,
}

/// Completions that are being polled one after the other.
#[derive(Clone, Copy)]
struct Batch {
    before: Empty,
    t: u64,
    found: u32,
}

const NONE: Empty = Empty {
    queue: Polled { cq: 0, is_extended: false, process: 0, recording: 0 },
    count: 0,
    first: 0,
    last: 0,
    site: Site { place: 0, call: 0 },
};

thread_local! {
    static EMPTY: [Cell<Empty>; QUEUES] = const { [const { Cell::new(NONE) }; QUEUES] };
    static BATCH: Cell<Batch> = const { Cell::new(Batch { before: NONE, t: 0, found: 0 }) };
}

impl Polled {
    /// The queue with an index in the arena, polled by a process all of which is recorded.
    pub(super) fn new(process: &Process, cq: u32, is_extended: bool) -> Self {
        let recorder = &process.env.recorder;
        Self { cq, is_extended, process: recorder.index(), recording: recorder.recording() }
    }

    /// A poll has found nothing.
    #[cold]
    pub(super) fn nothing(self, process: &Process) {
        let t = system::now_ns();
        EMPTY.with(|all| {
            let mine = all.iter().find(|empty| empty.get().is_of(self));
            // Or one that is free, or the oldest.
            let place = mine.or_else(|| all.iter().min_by_key(|empty| empty.get().last));
            let Some(place) = place else { return };
            let mut empty = place.get();
            if !empty.is_of(self) {
                empty.over(process);
                empty = Empty { queue: self, first: t, site: self.site_in_vain(process), ..NONE };
            }
            let empty = Empty { count: empty.count + 1, last: t, ..empty };
            // Endless polling is traced, too.
            if t.saturating_sub(empty.first) < PERIOD_NS {
                place.set(empty);
            } else {
                place.set(NONE);
                empty.over(process);
            }
        });
    }

    /// Where the program polls.
    fn site(self, process: &Process) -> Site {
        let function = if self.is_extended { c"ibv_start_poll" } else { c"ibv_poll_cq" };
        site::of_inline(process, function)
    }

    /// The same for a poll that finds nothing.
    fn site_in_vain(self, process: &Process) -> Site {
        let function = if self.is_extended { c"ibv_start_poll" } else { c"ibv_poll_cq" };
        site::of_inline_from_elsewhere(process, function)
    }

    /// The polls before that have found nothing: they are over.
    fn before(self) -> Empty {
        EMPTY.with(|all| {
            let mine = all.iter().find(|empty| empty.get().is_of(self));
            mine.map_or(Empty { queue: self, ..NONE }, |mine| mine.replace(NONE))
        })
    }

    /// A poll has found completions.
    #[cold]
    pub(super) fn completions(self, process: &Process, completions: &[Wc]) {
        let mut changed = buffers::polled(&process.env.recorder, completions);
        changed.extend(receives::polled(process, completions));
        let site = self.site(process);
        let found = completions.len() as u32;
        Empty { site, ..self.before() }.trace(process, found, system::now_ns(), &changed);
    }

    /// `ibv_start_poll` has found one, behind which there may be more.
    #[cold]
    pub(super) fn begins(self, process: &Process) {
        let before = Empty { site: self.site(process), ..self.before() };
        BATCH.set(Batch { before, t: system::now_ns(), found: 1 });
    }

    /// `ibv_next_poll` has found another one.
    #[cold]
    pub(super) fn goes_on(self) {
        let batch = BATCH.get();
        if batch.before.queue == self {
            BATCH.set(Batch { found: batch.found + 1, ..batch });
        }
    }

    /// `ibv_end_poll`
    #[cold]
    pub(super) fn ends(self, process: &Process) {
        let batch = BATCH.replace(Batch { before: NONE, t: 0, found: 0 });
        if batch.before.queue == self {
            batch.before.trace(process, batch.found, batch.t, &[]);
        }
    }
}

impl Empty {
    fn is_of(&self, queue: Polled) -> bool {
        self.count > 0 && self.queue == queue
    }

    /// Nothing was found.
    fn over(self, process: &Process) {
        if self.count > 0 {
            self.trace(process, 0, system::now_ns(), &[]);
        }
    }

    fn trace(self, process: &Process, found: u32, t: u64, changed: &[Changed]) {
        let Self { queue, count: empty, first, last, site } = self;
        let Polled { cq, is_extended, .. } = queue;
        // Counts for another recording are too late.
        if queue != Polled::new(process, cq, is_extended) {
            return;
        }
        let recorder = &process.env.recorder;
        recorder.prepare();
        let event =
            event::Polled { empty, first, last, cq, found, is_extended: is_extended.into() };
        let about = About { t, site, ..recorder.about(recorder.index()) };
        recorder.append(about, &event.into(), &[changed.as_bytes()]);
    }
}

/// The calling thread goes on to something else that is traced.
#[cold]
pub(super) fn over(process: &Process) {
    EMPTY.with(|all| all.iter().for_each(|empty| empty.replace(NONE).over(process)));
}
