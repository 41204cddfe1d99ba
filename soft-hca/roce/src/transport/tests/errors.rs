//! Requests that fail, receivers that are not ready, peers that vanish: the status, what was done
//! before, and silence afterwards.

use proptest::prelude::*;

use super::mix::mix;
use super::network::{Faults, Random};
use super::world::*;
use crate::transport::attributes::{Attributes, Mtu};
use crate::transport::events::{Event, EventCounts};
use crate::transport::queue_pair::{RequesterHalf, State};
use crate::transport::request::{MAX_MESSAGE, Opcode, Remote, Status, WorkRequest};
use crate::transport::target::Refusal;
use crate::transport::timers::{AckTimer, rnr_wait_ns};
use crate::wire::headers::Feth;
use crate::wire::opcode::SendEnd;

#[derive(Clone, Copy, Debug)]
enum Bad {
    WriteKey,
    WriteRange,
    ImmediateKey,
    LongImmediateKey,
    ReadKey,
    ReadForbidden,
    EmptyReadForbidden,
    EmptyWriteForbidden,
    AtomicKey,
    AtomicUnaligned,
    AtomicWriteLength,
    FlushKey,
    FlushForbidden,
    FlushTooLong,
    ReceiveTooSmall,
    InvalidateKey,
    Overflow,
    NoResources,
    TooLong,
    NoDepth,
}

use Bad::*;

/// Global visibility of a range.
const RANGE: Feth = Feth { placement: 1, selectivity: Feth::RANGE };

const ALL: [Bad; 20] = [
    WriteKey,
    WriteRange,
    ImmediateKey,
    LongImmediateKey,
    ReadKey,
    ReadForbidden,
    EmptyReadForbidden,
    EmptyWriteForbidden,
    AtomicKey,
    AtomicUnaligned,
    AtomicWriteLength,
    FlushKey,
    FlushForbidden,
    FlushTooLong,
    ReceiveTooSmall,
    InvalidateKey,
    Overflow,
    NoResources,
    TooLong,
    NoDepth,
];

impl Bad {
    /// The request, its status, and why the peer fails.
    fn request(self, mtu: Mtu) -> (Opcode, u32, Status, Option<Refusal>) {
        let memory = |offset: u64, rkey| Remote { address: BASE + offset, rkey };
        let send = Opcode::Send(SendEnd::Plain);
        let access = (Status::RemoteAccess, Some(Refusal::Access));
        let invalid = (Status::RemoteInvalidRequest, Some(Refusal::InvalidRequest));
        let long = 2 * mtu.bytes() + 1;
        let (opcode, length, (status, refusal)) = match self {
            WriteKey => (Opcode::Write(memory(64, BAD_KEY), None), long, access),
            WriteRange => (Opcode::Write(memory(1 << 40, KEY), None), 1, access),
            ImmediateKey => (Opcode::Write(memory(64, BAD_KEY), Some([7; 4])), 1, access),
            LongImmediateKey => (Opcode::Write(memory(64, BAD_KEY), Some([7; 4])), long, access),
            ReadKey => (Opcode::Read(memory(64, BAD_KEY)), long, access),
            ReadForbidden => (Opcode::Read(memory(64, FORBIDDEN_KEY)), long, invalid),
            EmptyReadForbidden => (Opcode::Read(memory(64, FORBIDDEN_KEY)), 0, invalid),
            EmptyWriteForbidden => (Opcode::Write(memory(64, FORBIDDEN_KEY), None), 0, invalid),
            AtomicKey => (Opcode::FetchAdd { remote: memory(0, BAD_KEY), add: 1 }, 8, access),
            AtomicUnaligned => {
                let remote = memory(4, KEY);
                (Opcode::CompareSwap { remote, compare: 1, swap: 1 }, 8, invalid)
            }
            AtomicWriteLength => (Opcode::AtomicWrite(memory(0, KEY)), 4, invalid),
            FlushKey => (Opcode::Flush(memory(64, BAD_KEY), RANGE), long, access),
            FlushForbidden => (Opcode::Flush(memory(64, FORBIDDEN_KEY), RANGE), long, invalid),
            FlushTooLong => (Opcode::Flush(memory(64, KEY), RANGE), MAX_MESSAGE + 1, invalid),
            ReceiveTooSmall => {
                (send, long, (Status::RemoteInvalidRequest, Some(Refusal::ReceiveTooSmall)))
            }
            // The message has arrived; what comes behind it is not answered.
            InvalidateKey => {
                let end = SendEnd::Invalidate(7);
                (Opcode::Send(end), 1, (Status::RetryExceeded, Some(Refusal::Invalidate)))
            }
            Overflow => (send, 1, (Status::RetryExceeded, Some(Refusal::Overflow))),
            NoResources => (Opcode::Read(memory(64, KEY)), long, invalid),
            TooLong => (send, MAX_MESSAGE + 1, (Status::LocalLength, None)),
            NoDepth => (Opcode::Read(memory(64, KEY)), long, (Status::LocalOperation, None)),
        };
        (opcode, length, status, refusal)
    }
}

/// Some requests, the bad one, and some that nobody executes.
fn run(bad: Bad, seed: u64, before: usize, faults: Faults, busy: u32) {
    let mtu = Mtu::B256;
    let mut attributes = [attributes(mtu, 0xff_fff0); 2];
    let before = match bad {
        NoDepth => {
            attributes[0].max_rd_atomic = 0;
            0
        }
        NoResources => {
            attributes[1].max_dest_rd_atomic = 0;
            0
        }
        _ => before,
    };
    let mut world = World::new(seed, attributes, faults, busy, 3000);
    let mut random = Random::new(!seed);
    let peer = &mut world.ends[1].receiver;
    let (mut work, expected) = mix(&mut random, mtu, 5, before, &peer.memory);
    let (opcode, length, status, refusal) = bad.request(mtu);
    work.push(Work {
        request: request(before as u64, opcode, length),
        bytes: vec![9; (length as usize).min(10_000)],
    });
    for id in before + 1..before + 5 {
        let request = request(id as u64, Opcode::Send(SendEnd::Plain), 3);
        work.push(Work { request, bytes: vec![8; 3] });
    }
    peer.receives = expected.received.iter().map(|_| (0, 2000)).collect();
    let room = if matches!(bad, ReceiveTooSmall) { mtu.bytes() as usize + 1 } else { 2000 };
    peer.receives.extend([(0, room), (0, 2000), (0, 2000)]);
    peer.windows = (FIRST_WINDOW..FIRST_WINDOW + 200).collect();
    peer.overflow_at = match bad {
        Overflow => expected.received.len(),
        _ => usize::MAX,
    };
    world.work(0, work);
    world.run();

    let [end, peer] = &world.ends;
    let (last, good) = end.sender.completed.split_last().unwrap();
    assert!(good.iter().copied().eq((0..good.len() as u64).map(|id| (id, Status::Success))));
    assert!(end.requester().has_failed() && !end.requester().wants_request());
    let is_good_network = faults.lost == 0 && busy == 0;
    let failed = before as u64 + u64::from(matches!(bad, InvalidateKey));
    if is_good_network || last.0 == failed && last.1 != Status::RetryExceeded {
        assert_eq!(*last, (failed, status));
        assert_eq!(peer.receiver.failed, refusal);
        // A receive tells why, if the packet that is refused takes one or has.
        let is_blamed = matches!(bad, ImmediateKey | InvalidateKey | Overflow | ReceiveTooSmall);
        assert_eq!(peer.receiver.has_taken(), is_blamed);
        assert_eq!(peer.responder().has_failed(), refusal.is_some());
        assert_eq!(peer.receiver.received, received(&expected.received, 2000));
        // A write's first packets are in memory before the last is refused.
        assert!(peer.receiver.memory == expected.memory, "memory");
    } else {
        // The last answer of the peer before it fell silent was lost.
        assert_eq!(last.1, Status::RetryExceeded);
        assert!(last.0 <= failed);
    }
}

/// Receives with room for more than arrives.
fn received<T: Clone>(messages: &[(T, Vec<u8>)], room: usize) -> Vec<(T, Vec<u8>)> {
    let mut messages = messages.to_vec();
    for (_, bytes) in &mut messages {
        bytes.resize(room, 0);
    }
    messages
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn requests_that_fail(
        bad in 0..ALL.len(), seed: u64, before in 0..8usize, is_bad_network: bool,
    ) {
        let faults = match is_bad_network {
            true => Faults { lost: 100, duplicated: 100, overtaken: 100, late: 5 },
            false => Faults { duplicated: 100, ..Faults::default() },
        };
        run(ALL[bad], seed, before, faults, if is_bad_network { 30 } else { 0 });
    }
}

#[test]
fn every_failure_has_its_status() {
    for (seed, bad) in (0..).zip(ALL) {
        run(bad, seed, 0, Faults::default(), 0);
        run(bad, seed, 5, Faults::default(), 0);
    }
}

/// One send of 1000 bytes to a peer with `receives`.
fn send(attributes: Attributes, receives: &[(u64, usize)]) -> World {
    let mut world = World::new(1, [attributes; 2], Faults::default(), 0, 100);
    world.ends[1].receiver.receives = receives.iter().copied().collect();
    let request = request(0, Opcode::Send(SendEnd::Plain), 1000);
    world.work(0, vec![Work { request, bytes: vec![7; 1000] }]);
    world
}

/// Events that an end has counted.
fn happened(world: &mut World, end: usize) -> Vec<(Event, u32)> {
    world.ends[end].qp.take_event_counts().iter().collect()
}

#[test]
fn a_receiver_that_is_never_ready() {
    for rnr_retry in 0..7 {
        let attributes = Attributes { rnr_retry, min_rnr_timer: 10, ..attributes(Mtu::B256, 0) };
        let mut world = send(attributes, &[]);
        world.run();
        assert_eq!(world.ends[0].sender.completed, [(0, Status::RnrRetryExceeded)]);
        // One NAK for each attempt; what is behind the refused packet is dropped.
        assert_eq!(world.network.responses[0], u64::from(rnr_retry) + 1);
        assert_eq!(world.network.sent[1], 4 * (u64::from(rnr_retry) + 1));
        assert!(world.now_ns >= u64::from(rnr_retry) * rnr_wait_ns(10));
        assert!(world.now_ns <= u64::from(rnr_retry) * (rnr_wait_ns(10) + 20_000) + 20_000);
        let naks = u32::from(rnr_retry) + 1;
        let expected = [(Event::RnrReceived, naks), (Event::RnrRetriesExceeded, 1)];
        assert_eq!(happened(&mut world, 0), expected);
        let peer = happened(&mut world, 1);
        assert!(peer.contains(&(Event::RnrSent, naks)), "{peer:?}");
    }
}

#[test]
fn a_receiver_that_is_ready_at_last() {
    let attributes = Attributes { min_rnr_timer: 14, retry_cnt: 0, ..attributes(Mtu::B256, 0) };
    let mut world = send(attributes, &[(20 * rnr_wait_ns(14), 1000)]);
    world.run();
    assert_eq!(world.ends[0].sender.completed, [(0, Status::Success)]);
    assert_eq!(world.ends[1].receiver.received[0].1, [7; 1000]);
    assert!(world.network.responses[0] <= 22);
}

#[test]
fn a_peer_that_vanishes() {
    for retry_cnt in 0..8 {
        let attributes =
            Attributes { retry_cnt, ack: AckTimer::new(8), ..attributes(Mtu::B256, 0) };
        let mut world = send(attributes, &[]);
        world.network.cut();
        world.run();
        assert_eq!(world.ends[0].sender.completed, [(0, Status::RetryExceeded)]);
        assert_eq!(world.now_ns, AckTimer::new(8).limit_ns(retry_cnt).unwrap());
        assert_eq!(world.network.sent[1], 4 * (u64::from(retry_cnt) + 1));
        let retried = (Event::Retried, u32::from(retry_cnt));
        let expected = [(Event::RetriesExceeded, 1), retried];
        let happened = happened(&mut world, 0);
        assert_eq!(happened[..], expected[..1 + usize::from(retry_cnt > 0)]);
        // It was taken.
        assert_eq!(world.ends[0].qp.take_event_counts(), EventCounts::default());
    }
}

#[test]
fn a_peer_that_vanishes_in_the_middle() {
    for seed in 0..200 {
        let mtu = Mtu::B512;
        let attributes = attributes(mtu, 0xff_ff00);
        let mut world = World::new(seed, [attributes; 2], Faults::default(), 0, 100_000);
        let mut random = Random::new(seed);
        let memory = world.ends[1].receiver.memory.clone();
        let (work, expected) = mix(&mut random, mtu, 100, 40, &memory);
        let peer = &mut world.ends[1].receiver;
        peer.receives = expected.received.iter().map(|_| (0, 60_000)).collect();
        peer.windows = (FIRST_WINDOW..FIRST_WINDOW + 200).collect();
        world.work(0, work);
        world.run_until(random.below(100_000));
        world.network.cut();
        let cut_ns = world.now_ns;
        world.run();
        let (last, good) = world.ends[0].sender.completed.split_last().unwrap();
        assert!(good.iter().copied().eq((0..good.len() as u64).map(|id| (id, Status::Success))));
        if good.len() < 39 {
            assert_eq!(*last, (good.len() as u64, Status::RetryExceeded), "{seed}");
            let limit = attributes.ack.limit_ns(attributes.retry_cnt).unwrap();
            let after_ns = world.now_ns - cut_ns;
            // A packet that was due at once is sent at most 3 microseconds later.
            assert!(after_ns <= limit + 4_000, "{seed}: {after_ns}");
        }
    }
}

#[test]
fn who_waits_for_ever_waits() {
    let attributes = Attributes { ack: AckTimer::new(0), ..attributes(Mtu::B256, 0) };
    let mut world = send(attributes, &[]);
    world.network.cut();
    world.run();
    assert_eq!(world.ends[0].sender.completed, []);
    assert!(!world.ends[0].requester().is_idle());
}

#[test]
fn nothing_is_posted_behind_a_failure() {
    let mut world = send(attributes(Mtu::B256, 0), &[(0, 10)]);
    world.run();
    assert_eq!(world.ends[0].sender.completed, [(0, Status::RemoteInvalidRequest)]);
    let end = &mut world.ends[0];
    assert_eq!(end.qp.state(), State::Error);
    let Some(RequesterHalf::Reliable(requester)) = &mut end.qp.requester else { panic!("none") };
    requester.post(WorkRequest { id: 1, ..end.sender.work[0].request });
    assert_eq!(requester.transmit(world.now_ns, |_| panic!("a packet")), 0);
    assert!(requester.is_idle() && !requester.has_finished_requests());
    assert_eq!(requester.deadline(), None);
}
