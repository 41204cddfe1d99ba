//! The plan of a queue pair, drawn alike by both of its ends: so each knows what has to come.
//!
//! Traffic goes in rounds. In a round one end is active: it posts some requests, the last of which
//! tells the other end, the passive one, that all are there. Both look at their memory, and in the
//! next round the other end is the active one.

use serde::{Deserialize, Serialize};

use crate::area::{Content, Piece, Segment, along};
use crate::pattern::{Pattern, Random};

/// Requests of a round, at most.
pub const MAX_REQUESTS: u32 = 16;
/// SGEs, at most.
pub const MAX_SEGMENTS: u32 = 4;
/// Bytes of inline data, at most.
pub const MAX_INLINE: u32 = 64;
/// Bytes of a message that is received through a shared queue, at most.
pub const MAX_SHARED: u32 = 8192;
/// Bytes of a datagram, at most: what one packet carries at the smallest usual MTU.
pub const MAX_DATAGRAM: u32 = 1024;
/// Bytes before a datagram.
pub const GRH: u32 = 40;
/// Bytes of the word for compare and swap, and where it is.
pub const WORD: Segment = Segment { offset: 24, length: 8 };

/// Bytes between segments, less than.
const GAP: u32 = 64;
/// Bytes that a receive has beyond its message, less than.
const SLACK: u32 = 64;

/// The agreement of both sides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Config {
    /// Everything is drawn from this.
    pub seed: u64,
    /// Bytes to be moved, by all queue pairs together.
    pub bytes: u64,
    /// Threads of each side.
    pub threads: u32,
    /// Queue pairs of each thread.
    pub queue_pairs: u32,
    /// Bytes of a message, at most.
    pub max_message: u32,
    /// Entries of each thread's completion queue; 0 for as many as its requests can need.
    pub cq_entries: u32,
    /// Threads sleep until there is a completion event, instead of polling.
    pub events: bool,
    /// All queue pairs are reliable connections: what a network loses comes nevertheless.
    pub reliable: bool,
}

impl Config {
    /// A thread's queue pairs.
    pub fn names(&self, thread: u32) -> impl Iterator<Item = Name> + Clone + use<> {
        let is_reliable = self.reliable;
        (0..self.queue_pairs).map(move |number| Name { thread, number, is_reliable })
    }

    /// Bytes of the messages of a round, at most.
    fn round_bytes(&self, service: Service) -> u32 {
        match service {
            Service::Ud => MAX_REQUESTS * MAX_DATAGRAM,
            _ => self.max_message + self.max_message / 2,
        }
    }

    /// Bytes of each of a queue pair's areas.
    pub fn area_bytes(&self, service: Service) -> u32 {
        let around = MAX_SEGMENTS * GAP + SLACK + GRH + 8;
        (self.round_bytes(service) + MAX_REQUESTS * around + GAP).next_multiple_of(64)
    }

    /// Bytes that a queue pair is to move. With datagrams, that are small, they are fewer.
    fn share(&self, service: Service) -> u64 {
        let names = (0..self.threads).flat_map(|thread| self.names(thread));
        let others = names.filter(|name| name.service() != Service::Ud).count() as u64;
        let share = self.bytes.div_ceil(others);
        if service == Service::Ud { share.div_ceil(32) } else { share }
    }
}

/// The service of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagrams.
    Ud,
}

/// A queue pair, as both ends know it.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    /// The thread that it belongs to.
    pub thread: u32,
    /// Its number in the thread.
    pub number: u32,
    /// Whether it is a reliable one like all others.
    pub is_reliable: bool,
}

impl Name {
    /// Of eight queue pairs six are reliable, unless all are.
    pub fn service(self) -> Service {
        match (3 * self.thread + self.number) % 8 {
            _ if self.is_reliable => Service::Rc,
            4 => Service::Uc,
            7 => Service::Ud,
            _ => Service::Rc,
        }
    }

    /// The reliable ones of every other thread share a receive queue.
    pub fn is_shared(self) -> bool {
        self.thread % 2 == 1 && self.service() == Service::Rc
    }
}

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Send,
    SendWithImm,
    Write,
    WriteWithImm,
    Read,
    /// Adds a number to the word that all queue pairs share.
    FetchAdd(u64),
    /// Compares the queue pair's own word, which is `before`.
    CompareSwap {
        before: u64,
        compare: u64,
        swap: u64,
    },
}

impl Kind {
    /// Whether it takes a receive of the peer.
    pub fn is_received(self) -> bool {
        matches!(self, Self::Send | Self::SendWithImm | Self::WriteWithImm)
    }

    /// Whether its data lie in the peer's receive.
    pub fn is_send(self) -> bool {
        matches!(self, Self::Send | Self::SendWithImm)
    }

    /// Whether it carries data to the peer's memory, wherever there.
    pub fn is_outgoing(self) -> bool {
        self.is_send() || matches!(self, Self::Write | Self::WriteWithImm)
    }
}

/// A request, as the active end posts it and as the passive end is prepared for it.
#[derive(Clone, Debug)]
pub struct Request {
    pub kind: Kind,
    pub length: u32,
    pub immediate: u32,
    pub text: Pattern,
    pub is_signaled: bool,
    pub is_solicited: bool,
    pub is_inline: bool,
    pub is_fenced: bool,
    /// Whether it is posted together with those before it.
    pub is_linked: bool,
    /// The active end's memory: in the area of what is sent, or of what is fetched.
    pub local: Vec<Segment>,
    /// The passive end's memory for RDMA: in the area of what arrives, or of what may be read.
    pub remote: Segment,
    /// The passive end's receive, in the area of what arrives.
    pub receive: Vec<Segment>,
}

/// One round.
#[derive(Clone, Debug)]
pub struct Round {
    pub requests: Vec<Request>,
    /// The receives are posted when the active end may already have begun.
    pub is_late: bool,
    /// The word for compare and swap in the end.
    pub word_after: u64,
    /// The same in the beginning.
    pub word_before: u64,
    service: Service,
    is_shared: bool,
}

impl Round {
    /// Bytes of all messages.
    pub fn bytes(&self) -> u64 {
        self.requests.iter().map(|request| u64::from(request.length)).sum()
    }

    /// The sum of what is fetched and added.
    pub fn added(&self) -> u64 {
        let add = |request: &Request| match request.kind {
            Kind::FetchAdd(number) => number,
            _ => 0,
        };
        self.requests.iter().map(add).sum()
    }

    /// Data that the active end sends.
    pub fn outgoing(&self) -> Vec<Piece> {
        let sources = self.requests.iter().filter(|request| request.kind.is_outgoing());
        sources.flat_map(|r| along(&r.local, 0, r.length, r.text)).collect()
    }

    /// Data that the passive end has ready to be read.
    pub fn readable(&self) -> Vec<Piece> {
        let reads = self.requests.iter().filter(|request| request.kind == Kind::Read);
        reads.flat_map(|r| along(std::slice::from_ref(&r.remote), 0, r.length, r.text)).collect()
    }

    /// Data that the passive end has in its own area afterwards.
    pub fn arrived(&self) -> Vec<Piece> {
        let outgoing = self.requests.iter().filter(|request| request.kind.is_outgoing());
        let here = outgoing.filter(|request| !(request.kind.is_send() && self.is_shared));
        here.flat_map(|request| {
            let (place, skip) = if request.kind.is_send() {
                (&request.receive[..], self.header())
            } else {
                (std::slice::from_ref(&request.remote), 0)
            };
            along(place, skip, request.length, request.text)
        })
        .collect()
    }

    /// Data that the active end has fetched.
    pub fn fetched(&self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for request in &self.requests {
            let content = match request.kind {
                Kind::Read => {
                    pieces.extend(along(&request.local, 0, request.length, request.text));
                    continue;
                }
                Kind::FetchAdd(_) => Content::Unknown,
                Kind::CompareSwap { before, .. } => Content::Word(before),
                _ => continue,
            };
            pieces.extend(request.local.iter().map(|&segment| Piece { segment, content }));
        }
        pieces
    }

    /// Bytes that come before a message.
    pub fn header(&self) -> u32 {
        if self.service == Service::Ud { GRH } else { 0 }
    }
}

/// Puts segments into an area, one after the other.
#[derive(Debug, Default)]
struct Layout {
    end: u32,
}

impl Layout {
    /// A place for `length` bytes in up to `most` segments.
    fn place(&mut self, random: &mut Random, length: u32, most: u32) -> Vec<Segment> {
        let count = if length == 0 { 0 } else { 1 + random.below(most.min(length)) };
        let mut left = length;
        (1..=count)
            .rev()
            .map(|segments| {
                // Each of the others gets at least one byte.
                let spare = left - (segments - 1);
                let length = if segments == 1 { left } else { 1 + random.below(spare) };
                left -= length;
                let offset = self.end + random.below(GAP);
                self.end = offset + length;
                Segment { offset, length }
            })
            .collect()
    }

    /// A place for `length` bytes in one segment, which may be empty.
    fn place_whole(&mut self, random: &mut Random, length: u32) -> Segment {
        let offset = self.end + random.below(GAP);
        self.end = offset + length;
        Segment { offset, length }
    }
}

/// Draws the rounds of a queue pair.
#[derive(Debug)]
pub struct Planner {
    config: Config,
    name: Name,
    round: u64,
    /// Bytes that are still to be moved.
    left: u64,
}

impl Planner {
    /// The rounds of a queue pair: as many as it takes to move its share of the bytes.
    pub fn new(config: &Config, name: Name) -> Self {
        Self { config: config.clone(), name, round: 0, left: config.share(name.service()) }
    }

    /// The bytes of a message: mostly few, sometimes very many.
    fn length(&self, random: &mut Random, most: u32) -> u32 {
        let limit = match random.below(16) {
            0 => return 0,
            1..=4 => MAX_INLINE,
            5..=9 => 4096,
            10..=13 => 1 << 16,
            _ => u32::MAX,
        };
        1 + random.below(limit.min(most))
    }

    fn kind(&self, random: &mut Random, is_last: bool, word: &mut u64) -> Kind {
        let all = match self.name.service() {
            Service::Ud => 5,
            _ if is_last => 7,
            Service::Uc => 10,
            Service::Rc => 15,
        };
        match random.below(all) {
            0..=2 => Kind::Send,
            3..=4 => Kind::SendWithImm,
            5..=6 => Kind::WriteWithImm,
            7..=9 => Kind::Write,
            10..=12 => Kind::Read,
            13 => Kind::FetchAdd(1 + u64::from(random.below(1000))),
            _ => {
                let (before, swap) = (*word, random.next());
                let compare = if random.once_in(3) { random.next() } else { before };
                if compare == before {
                    *word = swap;
                }
                Kind::CompareSwap { before, compare, swap }
            }
        }
    }
}

impl Iterator for Planner {
    type Item = Round;

    fn next(&mut self) -> Option<Round> {
        if self.left == 0 {
            return None;
        }
        let Name { thread, number, .. } = self.name;
        let of = [self.config.seed, thread.into(), number.into(), self.round];
        let random = &mut Random::new(&of);
        let (service, is_shared) = (self.name.service(), self.name.is_shared());
        let word_before = random.next();
        let mut word = word_before;
        let mut budget = self.config.round_bytes(service);
        let [mut outgoing, mut fetched, mut arrived, mut readable] =
            std::array::from_fn(|_| Layout::default());
        let mut requests: Vec<Request> = Vec::new();
        let count = 1 + random.below(MAX_REQUESTS);
        for index in 0..count {
            let is_last = index + 1 == count;
            let kind = self.kind(random, is_last, &mut word);
            let most = match kind {
                _ if service == Service::Ud => MAX_DATAGRAM,
                kind if kind.is_send() && is_shared => MAX_SHARED,
                _ => u32::MAX,
            };
            let most = most.min(self.config.max_message).min(budget);
            let is_atomic = matches!(kind, Kind::FetchAdd(_) | Kind::CompareSwap { .. });
            let length = match most {
                _ if is_atomic => 8,
                0 => 0,
                most => self.length(random, most),
            };
            budget -= if is_atomic { 0 } else { length };
            let local = if kind.is_outgoing() { &mut outgoing } else { &mut fetched };
            let local = local.place(random, length, if is_atomic { 1 } else { MAX_SEGMENTS });
            let remote = match kind {
                Kind::Write | Kind::WriteWithImm => arrived.place_whole(random, length),
                Kind::Read => readable.place_whole(random, length),
                _ => WORD,
            };
            let header = if service == Service::Ud { GRH } else { 0 };
            let receive = if kind.is_send() && !is_shared {
                let room = header + length + random.below(SLACK);
                arrived.place(random, room, MAX_SEGMENTS)
            } else {
                Vec::new()
            };
            let fetches = |request: &Request| !request.kind.is_outgoing();
            requests.push(Request {
                kind,
                length,
                immediate: random.next() as u32,
                text: Pattern::new(&[of[0], of[1], of[2], of[3], index.into()]),
                is_signaled: is_last || random.once_in(2),
                is_solicited: is_last || kind.is_received() && random.once_in(4),
                is_inline: kind.is_outgoing() && length <= MAX_INLINE && random.once_in(2),
                // Fetched data is there before the peer learns of it and changes it.
                is_fenced: is_last && requests.iter().any(fetches),
                is_linked: index > 0 && !random.once_in(4),
                local,
                remote,
                receive,
            });
        }
        let is_late = service == Service::Rc && !is_shared && random.once_in(4);
        let round = Round { requests, is_late, word_after: word, word_before, service, is_shared };
        // A round with nothing but empty messages counts, too: there is an end in any case.
        self.left = self.left.saturating_sub(round.bytes().max(1));
        self.round += 1;
        Some(round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            cq_entries: 0,
            seed: 1,
            bytes: 200 << 20,
            threads: 4,
            queue_pairs: 4,
            max_message: 1 << 20,
            events: false,
            reliable: false,
        }
    }

    fn names() -> impl Iterator<Item = Name> {
        (0..4).flat_map(|thread| config().names(thread))
    }

    fn rounds() -> Vec<(Name, Round)> {
        let of = |name| Planner::new(&config(), name).map(move |round| (name, round));
        names().flat_map(of).collect()
    }

    #[test]
    fn both_ends_draw_the_same_and_all_is_moved() {
        let bytes: u64 = rounds().iter().map(|(_, round)| round.bytes()).sum();
        assert!(bytes >= config().bytes, "{bytes}");
        for (one, other) in rounds().iter().zip(rounds()) {
            assert_eq!(format!("{one:?}"), format!("{other:?}"));
        }
    }

    #[test]
    fn all_may_be_reliable() {
        let reliable = Config { reliable: true, ..config() };
        let mut names = (0..4).flat_map(|thread| reliable.names(thread));
        assert!(names.all(|name| name.service() == Service::Rc));
    }

    #[test]
    fn everything_has_a_place_of_its_own() {
        for (name, round) in rounds() {
            let end = config().area_bytes(name.service());
            for pieces in [round.outgoing(), round.readable(), round.arrived(), round.fetched()] {
                let mut last = 0;
                for Piece { segment, .. } in pieces {
                    assert!(segment.offset >= last);
                    last = segment.offset + segment.length;
                }
                assert!(last <= end);
            }
            let receives = round.requests.iter().flat_map(|request| &request.receive);
            assert!(receives.into_iter().all(|place| place.offset + place.length <= end));
            assert!(round.requests.iter().all(|request| request.local.len() <= 4));
        }
    }

    #[test]
    fn every_kind_of_everything_is_drawn() {
        let all = rounds();
        let has = |wanted: &dyn Fn(&Name, &Round, &Request) -> bool| {
            let mut requests = all.iter().flat_map(|(name, round)| {
                round.requests.iter().map(move |request| (name, round, request))
            });
            assert!(requests.any(|(name, round, request)| wanted(name, round, request)));
        };
        for service in [Service::Rc, Service::Uc, Service::Ud] {
            has(&|name, _, r| name.service() == service && r.kind == Kind::Send);
            has(&|name, _, r| name.service() == service && r.kind == Kind::SendWithImm);
        }
        has(&|name, _, request| name.is_shared() && request.kind == Kind::Send);
        for kind in [Kind::Write, Kind::WriteWithImm, Kind::Read] {
            has(&|_, _, request| request.kind == kind && request.length == 0);
            has(&|_, _, request| request.kind == kind && request.length > 1 << 19);
            has(&|_, _, request| request.kind == kind && request.local.len() == 4);
        }
        has(&|_, _, request| matches!(request.kind, Kind::FetchAdd(_)));
        for is_equal in [true, false] {
            has(&|_, _, request| {
                matches!(request.kind, Kind::CompareSwap { before, compare, .. }
                    if (before == compare) == is_equal)
            });
        }
        has(&|_, _, request| request.is_inline && request.length > 0);
        has(&|_, round, _| round.is_late);
    }

    #[test]
    fn the_last_request_tells_the_peer() {
        for (_, round) in rounds() {
            let last = round.requests.last().unwrap();
            assert!(last.kind.is_received() && last.is_signaled && last.is_solicited);
        }
    }
}
