//! Clocks of processes with a sanitizer, which go with their messages.
//!
//! A process counts its moments: each time that it may tell somebody something, by a request, a command or a file, a new
//! one begins. Of each of its last moments it leaves here what it knows by then. So a request that names its moment
//! carries all of that.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use arrayvec::ArrayVec;

use crate::arena::summed::Summed;

/// Moments of a process of which is kept what it knew. Of an older one is read what it knows now, which is more.
const KEPT: usize = 64;

/// Subjects of a clock. One that would have more knows all.
const MOST: usize = 32;

/// A part of the fabric of which something is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The work of a process up to a moment, by its index.
    Process(u32),
    /// The requests of a queue pair that were posted at a moment of its process's or before: they are done.
    Requests(u32),
}

impl Subject {
    /// The bit of those that are queue pairs.
    const REQUESTS: u64 = 1 << 32;

    fn to_word(self) -> u64 {
        match self {
            Self::Process(index) => index.into(),
            Self::Requests(qpn) => Self::REQUESTS | u64::from(qpn),
        }
    }

    fn of_word(word: u64) -> Self {
        match word & Self::REQUESTS {
            0 => Self::Process(word as u32),
            _ => Self::Requests(word as u32),
        }
    }
}

/// A knowledge: of each subject up to a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    known: ArrayVec<(Subject, u64), MOST>,
    has_all: bool,
}

/// Words of a clock in the arena.
const WORDS: usize = 1 + 2 * MOST;

/// The first word of a clock that knows all.
const ALL: u64 = u64::MAX;

impl Clock {
    /// The clock of a process of which nothing is known, and which may know anything.
    pub fn of_all() -> Self {
        Self { known: ArrayVec::new(), has_all: true }
    }

    /// Whether it is to be taken to know all that has happened.
    pub fn knows_all(&self) -> bool {
        self.has_all
    }

    /// The moment up to which a subject is known.
    pub fn of(&self, subject: Subject) -> Option<u64> {
        self.known.iter().find(|(of, _)| *of == subject).map(|(_, moment)| *moment)
    }

    /// A subject is known up to a moment.
    pub fn learn(&mut self, subject: Subject, moment: u64) {
        match self.known.iter_mut().find(|(of, _)| *of == subject) {
            Some((_, known)) => *known = moment.max(*known),
            None => self.has_all |= self.known.try_push((subject, moment)).is_err(),
        }
    }

    /// All is known that another one knows of subjects that there are. Others are forgotten when there is no more room.
    pub fn learn_all_of(&mut self, other: &Self, is_there: impl Fn(Subject) -> bool) {
        self.has_all |= other.has_all;
        for (subject, moment) in other.known.iter().filter(|(subject, _)| is_there(*subject)) {
            if self.known.is_full() {
                self.known.retain(|(subject, _)| is_there(*subject));
            }
            self.learn(*subject, *moment);
        }
    }

    fn to_words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[0] = if self.has_all { ALL } else { self.known.len() as u64 };
        for (pair, (subject, moment)) in words[1..].chunks_mut(2).zip(&self.known) {
            pair.copy_from_slice(&[subject.to_word(), *moment]);
        }
        words
    }

    fn of_words(words: &[u64; WORDS]) -> Self {
        let [count, pairs @ ..] = words;
        let pairs = pairs.chunks_exact(2).take((*count).min(MOST as u64) as usize);
        let known = pairs.map(|pair| (Subject::of_word(pair[0]), pair[1]));
        Self {
            known: if *count == ALL { ArrayVec::new() } else { known.collect() },
            has_all: *count == ALL,
        }
    }
}

/// The clock of a process at its last moments. Only the process itself writes there.
#[repr(C)]
#[derive(Debug)]
pub struct Clocks {
    newest: AtomicU64,
    said: AtomicU64,
    slots: [Summed<WORDS>; KEPT],
}

impl Clocks {
    /// The moment that has begun last; 0 of a process that has counted none.
    pub fn newest(&self) -> u64 {
        self.newest.load(Acquire)
    }

    /// The moment whose low half was named.
    pub fn whole(&self, low: u32) -> u64 {
        let newest = self.newest();
        if low == 0 { 0 } else { newest.saturating_sub((newest as u32).wrapping_sub(low).into()) }
    }

    /// Another moment has begun, at which this is known.
    pub fn begin(&self, moment: u64, clock: &Clock) {
        self.slots[moment as usize % KEPT].write(moment, &clock.to_words());
        self.newest.store(moment, Release);
    }

    /// At the newest moment something is said that any process may hear.
    pub fn says(&self) {
        self.said.store(self.newest(), Release);
    }

    /// The knowledge at a moment, or a later one.
    pub fn at(&self, moment: u64) -> Clock {
        if moment == 0 {
            return Clock::of_all();
        }
        let read = |moment: u64| self.slots[moment as usize % KEPT].read(moment);
        let words = read(moment).or_else(|| read(self.newest()));
        words.as_ref().map_or_else(Clock::of_all, Clock::of_words)
    }

    /// The knowledge when something was said last; none if nothing was.
    pub fn last_said(&self) -> Option<Clock> {
        let moment = self.said.load(Acquire);
        (moment > 0).then(|| self.at(moment))
    }
}

/// The processes that have clocks, a bit each.
#[repr(C)]
#[derive(Debug)]
pub struct Clocked<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> Clocked<WORDS> {
    /// A process has one from now on.
    pub fn add(&self, index: usize) {
        if let Some(word) = self.0.get(index / 64) {
            word.fetch_or(1 << (index % 64), Release);
        }
    }

    /// Their indices.
    pub fn all(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let bits = word.load(Acquire);
            (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| at * 64 + bit)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Clocks {
        let slots = std::array::from_fn(|_| Summed::new());
        Clocks { newest: AtomicU64::new(0), said: AtomicU64::new(0), slots }
    }

    fn clock(list: &[(Subject, u64)]) -> Clock {
        let mut clock = Clock::default();
        list.iter().for_each(|(subject, moment)| clock.learn(*subject, *moment));
        clock
    }

    #[test]
    fn a_clock_knows_the_newest_of_each() {
        let [own, peer, requests] =
            [Subject::Process(1), Subject::Process(7), Subject::Requests(7)];
        let mut known = clock(&[(own, 3), (peer, 9), (own, 2)]);
        let other = clock(&[(peer, 8), (requests, 5), (Subject::Process(9), 1)]);
        known.learn_all_of(&other, |subject| subject != Subject::Process(9));
        assert_eq!(
            [own, peer, requests].map(|subject| known.of(subject)),
            [Some(3), Some(9), Some(5)]
        );
        assert_eq!(known.of(Subject::Process(9)), None);
        assert_eq!(Clock::of_words(&known.to_words()), known);
        assert!(!known.knows_all());
    }

    #[test]
    fn one_with_too_many_subjects_knows_all() {
        let list: Vec<_> = (0..=MOST as u32).map(|index| (Subject::Process(index), 1)).collect();
        assert!(!clock(&list[1..]).knows_all());
        assert!(clock(&list).knows_all());
        assert!(Clock::of_words(&clock(&list).to_words()).knows_all());
        // Subjects that are gone make room.
        let mut known = clock(&list[1..]);
        known.learn_all_of(&clock(&list[..1]), |subject| subject != list[1].0);
        assert!(!known.knows_all() && known.of(list[0].0).is_some());
    }

    #[test]
    fn an_old_moment_is_read_as_the_newest() {
        let clocks = none();
        assert!(clocks.at(0).knows_all());
        assert_eq!(clocks.last_said(), None);
        let at = |moment| clock(&[(Subject::Process(1), moment)]);
        let last = KEPT as u64 + 2;
        (1..=last).for_each(|moment| clocks.begin(moment, &at(moment)));
        clocks.says();
        assert_eq!(clocks.at(last - 1), at(last - 1));
        assert_eq!(clocks.at(1), at(last));
        assert_eq!(clocks.last_said(), Some(at(last)));
    }

    #[test]
    fn half_of_a_moment_is_enough() {
        let clocks = none();
        let newest = (3 << 32) + 5;
        clocks.begin(newest, &Clock::default());
        assert_eq!(clocks.whole(5), newest);
        assert_eq!(clocks.whole(u32::MAX), (3 << 32) - 1);
        assert_eq!(clocks.whole(0), 0);
    }

    #[test]
    fn processes_with_clocks_are_found() {
        let clocked = Clocked::<3>(std::array::from_fn(|_| AtomicU64::new(0)));
        [3, 64, 191, 192].into_iter().for_each(|index| clocked.add(index));
        assert_eq!(clocked.all().collect::<Vec<_>>(), [3, 64, 191]);
    }
}
