//! The order between this process and others, as ThreadSanitizer is told of it: clocks that go with messages.
//!
//! | what | carries |
//! | --- | --- |
//! | a message, an RDMA write with immediate data | what its sender knew when it was posted, and that the queue pair's requests before it are done |
//! | an RDMA or atomic operation | what its poster knew, to the target |
//! | a write to a socket, a pipe or another file, a command of the connection manager | what the process knew, to each process that reads from any later |
//! | `ibv_req_notify_cq`, a command of the connection manager | what the thread knew, to the thread of this process that takes the event |
//!
//! A process without a sanitizer counts no moments, and is taken to know all that has happened; so is one whose clock has
//! no room for more. So a race may be missed. Within a process all threads are taken to know what one of them has heard,
//! as far as others are concerned.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering::Acquire;

use soft_hca_core::arena::{Arena, Clock, Operation, OperationKind, Subject};

use super::thread::{Fiber, Sync, ThreadSanitizer};

/// As many of the own moments are told apart; one of those before is taken for a later one.
const MOMENTS: usize = 64;

/// As many of the last operations of a queue pair are told apart.
const LAST: usize = 64;

/// As many messages of a queue pair are remembered that were not polled.
const MESSAGES: usize = 1 << 14;

/// Operations of a peer's queue pair in this process's memory.
#[derive(Debug, Default)]
struct Done {
    /// One is behind the other.
    line: Box<Sync>,
    /// Operations of requests up to a moment of their poster's.
    moments: VecDeque<(u64, Box<Sync>)>,
    has_forgotten: bool,
}

impl Done {
    /// Another operation, posted at a moment, is made.
    fn begins(&mut self, moment: u64) {
        if self.moments.back().is_none_or(|(last, _)| *last != moment) {
            self.moments.push_back((moment, Box::default()));
        }
        if self.moments.len() > LAST {
            self.moments.pop_front();
            self.has_forgotten = true;
        }
    }

    /// Operations of requests that were posted at a moment or before.
    fn until(&self, moment: u64) -> Option<&Sync> {
        let known = self.moments.iter().rfind(|(posted, _)| *posted <= moment);
        let oldest = || self.moments.front().filter(|_| self.has_forgotten);
        known.or_else(oldest).map(|(_, sync)| &**sync)
    }
}

/// The knowledge of this process about others, and of others about it.
#[derive(Debug)]
pub(super) struct Order {
    sanitizer: ThreadSanitizer,
    /// The process's index in the arena.
    me: u32,
    clock: Clock,
    /// Makes one line of what threads have done up to each moment.
    line: Fiber,
    telling: Box<Sync>,
    moments: Box<[Sync; MOMENTS]>,
    /// Peers know of this moment: without the command that has ended it they could do nothing here.
    base: u64,
    /// By the peer's queue pair.
    done: HashMap<u32, Done>,
    /// Orders atomic operations, and RDMA reads of such words.
    words: Box<Sync>,
    /// The clocks of messages that were not polled yet, by this process's queue pair.
    messages: HashMap<u32, VecDeque<Clock>>,
    /// Messages may have been missed, so that it is not known which one is polled.
    has_missed: bool,
    /// By the index of a completion queue: orders an event behind what threads have done before they armed the queue.
    armed: HashMap<u32, Box<Sync>>,
}

impl Order {
    /// Begins to follow it. What others have told so far is known, by whatever has led to this process.
    pub(super) fn new(sanitizer: ThreadSanitizer, arena: &Arena, index: usize) -> Self {
        arena.clocked.add(index);
        let mut order = Self {
            sanitizer,
            me: index as u32,
            clock: Clock::default(),
            line: sanitizer.fiber(c"device"),
            telling: Box::default(),
            moments: Box::new([const { Sync::new() }; MOMENTS]),
            base: 0,
            done: HashMap::new(),
            words: Box::default(),
            messages: HashMap::new(),
            has_missed: false,
            armed: HashMap::new(),
        };
        order.learns_all(arena);
        order.tells(arena);
        order
    }

    fn moment(&self, moment: u64) -> &Sync {
        &self.moments[moment as usize % MOMENTS]
    }

    /// The calling thread is about to tell somebody something: another moment begins.
    pub(super) fn tells(&mut self, arena: &Arena) -> u64 {
        let clocks = &arena.clocks[self.me as usize];
        let moment = clocks.newest() + 1;
        self.sanitizer.release(&self.telling);
        self.line.run(&[], || {
            self.sanitizer.acquire(&self.telling);
            self.sanitizer.release(self.moment(moment));
        });
        self.clock.learn(Subject::Process(self.me), moment);
        clocks.begin(moment, &self.clock);
        moment
    }

    /// The same by means that any process may read.
    pub(super) fn says(&mut self, arena: &Arena) {
        self.tells(arena);
        arena.clocks[self.me as usize].says();
    }

    /// The same by a command without which peers could not access what it is about.
    pub(super) fn commands(&mut self, arena: &Arena) {
        self.base = self.tells(arena);
    }

    /// The calling thread has read what others have said.
    pub(super) fn hears_what_is_said(&mut self, arena: &Arena) {
        self.acquire_done(arena, &Clock::default());
        let me = self.me as usize;
        for index in arena.clocked.all().filter(|index| *index != me) {
            if let Some(clock) = arena.clocks[index].last_said() {
                self.acquire_done(arena, &clock);
                self.learn(arena, &clock);
            }
        }
    }

    /// The calling thread knows that all is over which peers have done.
    pub(super) fn hears_all(&mut self, arena: &Arena) {
        self.acquire_done(arena, &Clock::of_all());
        self.learns_all(arena);
    }

    /// The calling thread has got an event of the connection manager, which is behind what threads of this process have
    /// asked that for.
    pub(super) fn hears_of_connection(&mut self, arena: &Arena) {
        self.hears_all(arena);
        let newest = arena.clocks[self.me as usize].newest();
        self.sanitizer.acquire(self.moment(newest));
    }

    /// The calling thread arms a completion queue.
    pub(super) fn arms(&mut self, cq: u32) {
        self.sanitizer.release(self.armed.entry(cq).or_default());
    }

    /// The calling thread has taken an event of a completion queue, which another thread may have armed.
    pub(super) fn takes_event(&mut self, cq: u32) {
        self.armed.get(&cq).into_iter().for_each(|armed| self.sanitizer.acquire(armed));
    }

    fn learns_all(&mut self, arena: &Arena) {
        for index in arena.clocked.all() {
            let clocks = &arena.clocks[index];
            let is_there = is_there(arena, Subject::Process(index as u32));
            if index != self.me as usize && clocks.newest() > 0 && is_there {
                self.learn(arena, &clocks.at(clocks.newest()));
            }
        }
    }

    fn learn(&mut self, arena: &Arena, clock: &Clock) {
        self.clock.learn_all_of(clock, |subject| is_there(arena, subject));
    }

    /// The calling thread has polled a message of a queue pair. Returns the moment of this process of which its sender
    /// knew; none if it may know all.
    pub(super) fn hears_message(&mut self, arena: &Arena, qpn: u32) -> Option<u64> {
        let messages = self.messages.get_mut(&qpn);
        let clock = self.sanitizer.unseen(|| messages.and_then(VecDeque::pop_front));
        let known = clock.filter(|clock| !self.has_missed && !clock.knows_all());
        let Some(clock) = known else {
            self.hears_all(arena);
            return None;
        };
        self.hears(arena, &clock);
        Some(clock.of(Subject::Process(self.me)).unwrap_or_default())
    }

    /// The calling thread has polled some of the messages that have come.
    pub(super) fn hears_messages(&mut self, arena: &Arena) {
        let known: Vec<u32> = self.messages.keys().copied().collect();
        for qpn in known {
            while self.messages.get(&qpn).is_some_and(|messages| !messages.is_empty()) {
                self.hears_message(arena, qpn);
            }
        }
    }

    fn hears(&mut self, arena: &Arena, clock: &Clock) {
        self.acquire_done(arena, clock);
        if let Some(moment) = clock.of(Subject::Process(self.me)) {
            // Another thread may have told the sender.
            self.sanitizer.acquire(self.moment(moment));
        }
        self.learn(arena, clock);
    }

    /// The current thread or fiber knows of the operations that a clock knows to be done, and of those of queue pairs that
    /// are gone.
    fn acquire_done(&self, arena: &Arena, clock: &Clock) {
        for (qpn, done) in &self.done {
            let moment = match clock.knows_all() || arena.qp(*qpn).is_none() {
                true => u64::MAX,
                false => clock.of(Subject::Requests(*qpn)).unwrap_or_default(),
            };
            done.until(moment).into_iter().for_each(|done| self.sanitizer.acquire(done));
        }
    }

    /// The calling thread has polled that requests of a queue pair are done which were posted at a moment.
    pub(super) fn are_done(&mut self, qpn: u32, moment: u64) {
        // Their target may be memory of this process.
        let here = self.done.get(&qpn).and_then(|done| done.until(moment));
        here.into_iter().for_each(|done| self.sanitizer.acquire(done));
        self.clock.learn(Subject::Requests(qpn), moment);
    }

    /// A queue pair is reset, or gone.
    pub(super) fn forget(&mut self, qpn: u32) {
        self.messages.remove(&qpn);
    }

    /// Some of the peers' operations since the last time are not known.
    pub(super) fn has_missed(&mut self) {
        self.has_missed = true;
        self.messages.clear();
    }

    fn clock_of(arena: &Arena, told: &Operation) -> Clock {
        let clocks = arena.clocks.get(told.peer as usize);
        clocks.map_or_else(Clock::of_all, |clocks| clocks.at(told.moment))
    }

    /// A message has come.
    pub(super) fn comes(&mut self, arena: &Arena, told: &Operation) {
        let mut clock = Self::clock_of(arena, told);
        clock.learn(Subject::Requests(told.qpn), told.moment);
        let messages = self.messages.entry(told.to).or_default();
        if messages.len() < MESSAGES && !self.has_missed {
            self.sanitizer.unseen(|| messages.push_back(clock));
        } else {
            self.has_missed();
        }
    }

    /// A fiber makes a peer's operation.
    pub(super) fn operates(
        &mut self,
        arena: &Arena,
        told: &Operation,
        fiber: &Fiber,
        access: impl FnOnce(),
    ) {
        let clock = Self::clock_of(arena, told);
        let known = match clock.knows_all() {
            true => arena.clocks[self.me as usize].newest(),
            false => clock.of(Subject::Process(self.me)).unwrap_or_default().max(self.base),
        };
        let is_of_words = matches!(told.kind, OperationKind::Atomic | OperationKind::Read);
        self.done.entry(told.qpn).or_default().begins(told.moment);
        let (own, sanitizer) = (&self.done[&told.qpn], &self.sanitizer);
        fiber.run(&[], || {
            if known > 0 {
                sanitizer.acquire(self.moment(known));
            }
            self.acquire_done(arena, &clock);
            sanitizer.acquire(&own.line);
            if is_of_words {
                sanitizer.acquire(&self.words);
            }
            access();
            sanitizer.release(&own.line);
            own.until(told.moment).into_iter().for_each(|done| sanitizer.release(done));
            if is_of_words {
                sanitizer.release(&self.words);
            }
        });
    }
}

/// Whether there is such a process or queue pair.
fn is_there(arena: &Arena, subject: Subject) -> bool {
    match subject {
        Subject::Process(index) => {
            arena.procs.get(index as usize).is_some_and(|proc| proc.live.load(Acquire) != 0)
        }
        Subject::Requests(qpn) => arena.qp(qpn).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(done: &Done, moment: u64) -> Option<usize> {
        let found = done.until(moment)?;
        done.moments.iter().position(|(_, sync)| std::ptr::eq(&raw const **sync, found))
    }

    #[test]
    fn operations_are_known_up_to_a_moment() {
        let mut done = Done::default();
        assert_eq!(at(&done, u64::MAX), None);
        [4, 4, 7].into_iter().for_each(|moment| done.begins(moment));
        assert_eq!(
            [3, 4, 6, 7, u64::MAX].map(|moment| at(&done, moment)),
            [None, Some(0), Some(0), Some(1), Some(1)]
        );
        // Of a peer without a sanitizer nobody knows what it knows.
        done.begins(0);
        assert_eq!(at(&done, 0), Some(2));
    }

    #[test]
    fn the_oldest_of_many_stands_for_those_before() {
        let mut done = Done::default();
        (1..=2 * LAST as u64).for_each(|moment| done.begins(moment));
        assert_eq!(at(&done, 1), Some(0));
        assert_eq!(at(&done, 2 * LAST as u64), Some(LAST - 1));
    }
}
