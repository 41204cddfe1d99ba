//! Sends that pass by the send queue: nobody finds a difference, and what is in the way is left to the queue.

use std::sync::atomic::Ordering::{Acquire, Release};

use proptest::prelude::*;

use super::fabric::{Buffer, Case, THEM, US, World, pattern, set};
use crate::engine::Route;
use crate::uapi::rxe::{Cqe, Wr};
use crate::uapi::verbs::{opcode, send_flag, state};

/// A send of a list.
#[derive(Clone, Debug)]
struct Send {
    length: usize,
    is_inline: bool,
    has_immediate: bool,
    is_signaled: bool,
    is_solicited: bool,
    /// Bytes of the receive beyond those of the message; negative if they are too few.
    spare: i64,
}

fn send() -> impl Strategy<Value = Send> {
    let length = prop_oneof![1..49usize, 1..5000usize, Just(0usize), Just(9000usize)];
    let spare = prop_oneof![20 => 0..20i64, 1 => Just(-1i64)];
    (length, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), spare).prop_map(
        |(length, is_inline, has_immediate, is_signaled, is_solicited, spare)| Send {
            is_inline: is_inline && length < 300,
            length,
            has_immediate,
            is_signaled,
            is_solicited,
            spare,
        },
    )
}

const SIZE: usize = 10_000;

/// The outcome of lists of sends: completions on both sides, the receiver's memory, states, numbers of packets and all
/// that is counted.
#[derive(Debug, PartialEq)]
struct Outcome {
    completions: Vec<Vec<Cqe>>,
    theirs: Vec<u8>,
    words: Vec<[u32; 7]>,
    tallies: String,
    wakes: usize,
}

fn outcome(
    lists: &[Vec<Send>],
    (has_channel, is_shared): (bool, bool),
    sends_at_once: bool,
) -> Outcome {
    let world = World::sending(sends_at_once);
    let (a, b) = world.rc();
    if has_channel {
        receives_complete_in(&world, b, world.cq_with_channel(511));
    }
    let srq = is_shared.then(|| world.srq(255));
    if let Some(srq) = srq {
        set(&world.entry(b).srq, srq + 1);
    }
    let mut ours = world.buffer(US, pattern(3, SIZE));
    let mut theirs = world.buffer(THEM, vec![0; SIZE]);
    let (mut completions, mut wr_id) = (Vec::new(), 0);
    let recv_cq = world.entry(b).recv_cq.load(Acquire);
    for list in lists {
        world.actor(THEM).arm(recv_cq, true);
        let mut wrs = Vec::new();
        for send in list {
            wr_id += 1;
            let room = (send.length as i64 + send.spare).max(0) as usize;
            let receive = [theirs.sge(0, room)];
            match srq {
                None => world.receive(b, 1000 + wr_id, &receive),
                Some(srq) => world.receive_shared(srq, 1000 + wr_id, &receive),
            }
            wrs.push(request(wr_id, send, &mut ours));
        }
        let done = if sends_at_once { at_once(&world, a, &wrs) } else { 0 };
        if done < wrs.len() {
            wrs[done..].iter().for_each(|wr| world.put(a, wr));
            world.doorbell(a);
        }
        completions.extend([world.poll(a), world.poll_cq(recv_cq)]);
        if [a, b].iter().any(|qpn| world.state(*qpn) == state::ERR) {
            break;
        }
    }
    world.assert_unlocked();
    let words = [a, b].map(|qpn| {
        let qp = world.entry(qpn);
        let rq = world.arena.ring(&qp.rq).unwrap();
        [&qp.state, &qp.sq_psn, &qp.rq_psn, &qp.rq_consumer, &qp.wait]
            .map(|word| word.load(Acquire))
            .into_iter()
            .chain([rq.consumer(), qp.sq_in_flight.load(Acquire)])
            .collect::<Vec<_>>()
            .try_into()
            .unwrap()
    });
    let tallies = [a, b].map(|qpn| {
        let qp = world.entry(qpn);
        (qp.sent.load(), qp.received.load())
    });
    Outcome {
        completions,
        theirs: theirs.bytes,
        words: words.to_vec(),
        tallies: format!("{tallies:?}"),
        wakes: world.env.take_wakes().len(),
    }
}

/// Receives of the peer complete in a queue of its own, which it polls.
fn receives_complete_in(world: &World, qpn: u32, cq: u32) {
    let entry = &world.arena.cqs[cq as usize];
    set(&entry.proc, THEM as u32);
    set(&entry.polls_eager, entry.live.load(Acquire));
    set(&world.entry(qpn).recv_cq, cq);
}

fn request(wr_id: u64, send: &Send, ours: &mut Buffer) -> Wr {
    let kind = if send.has_immediate { opcode::SEND_WITH_IMM } else { opcode::SEND };
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    let flags =
        flag(send.is_signaled, send_flag::SIGNALED) | flag(send.is_solicited, send_flag::SOLICITED);
    let start = (wr_id as usize * 7) % (SIZE - send.length);
    let wr = Wr::new(wr_id, kind).flags(flags).imm(77);
    match send.is_inline {
        true => wr.inline(&ours.bytes[start..start + send.length]),
        false if wr_id % 2 == 0 => wr.sge(ours.sge(start, send.length)),
        false => {
            let first = send.length / 3;
            wr.sge(ours.sge(start, first)).sge(ours.sge(start + first, send.length - first))
        }
    }
}

/// As many as go at once, as the preloaded library has them executed.
fn at_once(world: &World, qpn: u32, wrs: &[Wr]) -> usize {
    let mut done = 0;
    while done < wrs.len() {
        match world.send_at_once(qpn, &wrs[done..]) {
            0 => break,
            count => done += count,
        }
    }
    done
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn nobody_finds_a_difference(
        lists in proptest::collection::vec(proptest::collection::vec(send(), 1..30), 1..6),
        has_channel: bool,
        is_shared: bool,
    ) {
        let kind = (has_channel, is_shared);
        prop_assert_eq!(outcome(&lists, kind, false), outcome(&lists, kind, true));
    }
}

#[test]
fn a_list_goes_at_once_and_leaves_the_queue_as_it_was() {
    let mut case = Case::new();
    let sq = |case: &Case| {
        let ring = case.world.arena.ring(&case.world.entry(case.a).sq).unwrap();
        (ring.producer(), ring.consumer())
    };
    let before = sq(&case);
    let wrs: Vec<Wr> =
        (0..40).map(|wr_id| Wr::new(wr_id, opcode::SEND).sge(case.ours.sge(0, 8))).collect();
    (0..40).for_each(|wr_id| case.world.receive(case.b, wr_id, &[case.theirs.whole()]));
    assert_eq!(at_once(&case.world, case.a, &wrs), 40);
    assert_eq!(sq(&case), before);
    let all: Vec<(u64, u32)> = (0..40).map(|wr_id| (wr_id, 0)).collect();
    assert_eq!((case.world.statuses(case.a), case.world.statuses(case.b)), (all.clone(), all));
    assert_eq!(case.theirs.bytes[..8], case.ours.bytes[..8]);
}

/// A send that does not go at once has changed nothing, for all that can be in its way.
#[test]
fn what_is_in_the_way_is_left_to_the_queue() {
    type Obstacle = fn(&mut Case) -> Wr;
    fn plain(case: &mut Case) -> Wr {
        Wr::new(1, opcode::SEND).sge(case.ours.whole())
    }
    let obstacles: [(&str, Obstacle); 16] = [
        ("SQD", |case| {
            set(&case.world.entry(case.a).state, state::SQD);
            plain(case)
        }),
        ("the error state", |case| {
            set(&case.world.entry(case.a).state, state::ERR);
            plain(case)
        }),
        ("a peer in the error state", |case| {
            set(&case.world.entry(case.b).state, state::ERR);
            plain(case)
        }),
        ("a request in the queue", |case| {
            let wr = plain(case);
            case.world.put(case.a, &wr);
            wr
        }),
        ("a wait", |case| {
            set(&case.world.entry(case.a).wait, 1);
            plain(case)
        }),
        ("a peer that waits", |case| {
            set(&case.world.entry(case.b).wait, 1);
            plain(case)
        }),
        ("a peer elsewhere", |case| {
            Route::Remote.store(&case.world.entry(case.a).route);
            plain(case)
        }),
        ("a shared receive queue without a receive", |case| {
            let srq = case.world.srq(15);
            set(&case.world.entry(case.b).srq, srq + 1);
            plain(case)
        }),
        ("a limit of a shared receive queue", |case| {
            let srq = case.world.srq(15);
            set(&case.world.entry(case.b).srq, srq + 1);
            set(&case.world.arena.srqs[srq as usize].limit, 1);
            case.world.receive_shared(srq, 30, &[case.theirs.whole()]);
            plain(case)
        }),
        ("a program that does not poll for payloads", |case| {
            case.world.move_at_once(case.b);
            plain(case)
        }),
        ("a key of nobody", |case| {
            let mut sge = case.ours.whole();
            sge.lkey ^= 0xff00;
            Wr::new(1, opcode::SEND).sge(sge)
        }),
        ("too many bytes", |case| {
            let mut sge = case.ours.whole();
            sge.length += 1;
            Wr::new(1, opcode::SEND).sge(sge)
        }),
        ("memory that is not there", |case| {
            let key = case.world.register(US, 4096, 8, u32::MAX);
            Wr::new(1, opcode::SEND).sge(crate::uapi::rxe::Sge { addr: 4096, length: 8, lkey: key })
        }),
        ("a record", |case| {
            case.world.arena.watch();
            plain(case)
        }),
        ("another kind", |case| {
            Wr::new(1, opcode::RDMA_WRITE)
                .sge(case.ours.whole())
                .remote(case.theirs.addr(), case.theirs.key)
        }),
        ("more inline data than was asked for", |case| {
            set(&case.world.entry(case.a).max_inline, 7);
            Wr::new(1, opcode::SEND).inline(&[9; 8])
        }),
    ];
    for (name, obstacle) in obstacles {
        let mut case = Case::new();
        case.world.receive(case.b, 20, &[case.theirs.whole()]);
        let wr = obstacle(&mut case);
        let psn = |case: &Case| case.world.entry(case.a).sq_psn.load(Acquire);
        let before = psn(&case);
        assert_eq!(case.world.send_at_once(case.a, &[wr]), 0, "{name}");
        assert_eq!((case.world.statuses(case.a), psn(&case)), (vec![], before), "{name}");
        assert_eq!(case.world.statuses(case.b), [], "{name}");
        case.world.assert_unlocked();
    }
    // Nothing was in the way.
    let mut case = Case::new();
    let wr = plain(&mut case);
    assert_eq!(case.world.send_at_once(case.a, std::slice::from_ref(&wr)), 0, "no receive");
    case.world.receive(case.b, 20, &[case.theirs.whole()]);
    assert_eq!(case.world.send_at_once(case.a, &[wr]), 1);
}

/// The receiver's queue has no room: the send waits in the queue.
#[test]
fn a_full_completion_queue_is_left_to_the_queue() {
    let mut case = Case::new();
    let cq = case.world.cq(1);
    receives_complete_in(&case.world, case.b, cq);
    (0..4).for_each(|wr_id| case.world.receive(case.b, wr_id, &[case.theirs.whole()]));
    let wr = Wr::new(1, opcode::SEND).sge(case.ours.whole());
    let mut sent = 0;
    while case.world.send_at_once(case.a, std::slice::from_ref(&wr)) == 1 {
        sent += 1;
    }
    let entry = &case.world.arena.cqs[cq as usize];
    assert_eq!(sent, crate::engine::cqe_of(entry.ring.mask.load(Acquire)));
    entry.credits.store(0, Release);
    assert_eq!(case.world.poll_cq(cq).len(), sent as usize);
    assert_eq!(case.world.send_at_once(case.a, &[wr]), 1);
}
