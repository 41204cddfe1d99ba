//! Messages that arrive in several parts, as packets bring them.

use soft_hca_verbs::cause::{Cause, MemoryRole};

use super::fabric::*;
use crate::engine::check::CheckError;
use crate::engine::deferred::Deferred;
use crate::engine::incoming::{Incoming, ScatterError};
use crate::engine::receive::ReceiveError;
use crate::engine::responder::{ReceiveCompletion, Responder};
use crate::engine::segments::{Fault, Memory};
use crate::engine::{Actor, Async, effects, process_memory, wc_status};
use crate::uapi::rxe::{Cqe, RemoteWr};
use crate::uapi::verbs::{access, opcode, qp_type, state, status, wc_flag, wc_opcode};

/// A queue pair that answers, with a receive queue of its own or a shared one.
struct Case {
    world: World,
    qpn: u32,
    srq: Option<u32>,
    deferred: Deferred,
}

impl Case {
    fn both() -> [Self; 2] {
        [false, true].map(|is_shared| {
            let world = World::new();
            let (_, qpn) = world.rc();
            // Those that come in parts come from the link, which moves them itself.
            world.move_at_once(qpn);
            let srq = is_shared.then(|| world.srq(7));
            if let Some(srq) = srq {
                set(&world.entry(qpn).srq, srq + 1);
            }
            Self { world, qpn, srq, deferred: Deferred::default() }
        })
    }

    fn post(&self, wr_id: u64, sges: &[crate::uapi::rxe::Sge]) {
        match self.srq {
            Some(srq) => self.world.receive_shared(srq, wr_id, sges),
            None => self.world.receive(self.qpn, wr_id, sges),
        }
    }

    /// Does something with the queue pair locked.
    fn locked<T>(
        &mut self,
        work: impl FnOnce(&mut Responder<'_>, &Actor<'_>, &mut Deferred) -> T,
    ) -> T {
        let actor = self.world.actor(US);
        let qp = self.world.entry(self.qpn);
        let mut responder = Responder::lock(&actor, qp, self.qpn, qp_type::RC).unwrap();
        work(&mut responder, &actor, &mut self.deferred)
    }

    fn begin(&mut self) -> Option<Incoming> {
        self.locked(|responder, actor, deferred| Incoming::begin(responder, actor, deferred))
    }

    fn scatter(&mut self, incoming: &mut Incoming, part: &[u8]) -> Result<(), ScatterError> {
        let part = [process_memory::ours(part)];
        let part = Memory::unregistered(US, &part);
        self.locked(|responder, actor, _| incoming.scatter(responder, actor, part))
    }

    fn abort(&mut self, incoming: Incoming, error: Option<ReceiveError>) {
        self.locked(|responder, actor, deferred| match error {
            Some(error) => incoming.fail(responder, actor, (&error, error.cause(0)), deferred),
            None => incoming.give_back(responder, actor, deferred),
        });
        effects::carry_out(&self.world.actor(US), &mut self.deferred);
    }
}

/// An element of the receive has a key that nothing has.
fn no_key(key: u32) -> ReceiveError {
    let memory = MemoryRole::Receive;
    ReceiveError::Memory(CheckError::memory(memory, Cause::Key { memory, key }))
}

#[test]
fn a_message_in_parts_fills_one_receive() {
    for mut case in Case::both() {
        let bytes = pattern(1, 100);
        let mut memory = case.world.buffer(THEM, vec![0; 200]);
        let sges = [memory.sge(0, 30), memory.sge(0, 0), memory.sge(50, 35), memory.sge(100, 50)];
        case.post(20, &sges);
        let mut incoming = case.begin().unwrap();
        for part in [&bytes[..40], &bytes[40..40], &bytes[40..64], &bytes[64..]] {
            assert_eq!(case.scatter(&mut incoming, part), Ok(()));
            assert_eq!(case.world.poll(case.qpn), []);
        }
        // A receive that was taken from a shared queue is the program's again.
        case.post(21, &[memory.sge(0, 1)]);
        let told = ReceiveCompletion {
            opcode: opcode::SEND_WITH_IMM,
            imm: 7,
            ..ReceiveCompletion::default()
        };
        case.locked(|responder, actor, deferred| {
            incoming.finish(responder, actor, told, deferred);
        });
        let received = Cqe {
            wr_id: 20,
            opcode: wc_opcode::RECV,
            byte_len: 100,
            imm: 7,
            qp_num: case.qpn,
            wc_flags: wc_flag::GRH | wc_flag::WITH_IMM,
            port_num: 1,
            ..Cqe::default()
        };
        assert_eq!(case.world.poll(case.qpn), [received]);
        assert_eq!(memory.bytes[..30], bytes[..30]);
        assert_eq!(memory.bytes[50..85], bytes[30..65]);
        assert_eq!(memory.bytes[100..135], bytes[65..]);
        // The next message goes into the next receive.
        let mut incoming = case.begin().unwrap();
        assert_eq!(case.scatter(&mut incoming, b"x"), Ok(()));
        assert_eq!(memory.bytes[0], b'x');
        case.world.assert_unlocked();
    }
}

#[test]
fn without_a_receive_none_begins() {
    for mut case in Case::both() {
        assert!(case.begin().is_none());
    }
}

#[test]
fn a_taken_receive_does_not_change_with_its_slot() {
    let [_, mut case] = Case::both();
    let mut memory = case.world.buffer(THEM, vec![0; 20]);
    case.post(20, &[memory.sge(0, 4), memory.sge(10, 4)]);
    let mut incoming = case.begin().unwrap();
    assert_eq!(case.scatter(&mut incoming, b"abc"), Ok(()));
    for wr_id in 30..37 {
        case.post(wr_id, &[]);
        drop(case.begin());
    }
    case.post(37, &[]);
    assert_eq!(case.scatter(&mut incoming, b"defg"), Ok(()));
    assert_eq!(memory.bytes[..14], *b"abcd\0\0\0\0\0\0efg\0");
}

#[test]
fn too_long_a_message_fails_with_the_part_that_does_not_fit() {
    for mut case in Case::both() {
        let mut memory = case.world.buffer(THEM, vec![0; 64]);
        case.post(20, &[memory.sge(0, 10), memory.sge(32, 10)]);
        case.post(21, &[]);
        let mut incoming = case.begin().unwrap();
        assert_eq!(case.scatter(&mut incoming, &[1; 15]), Ok(()));
        let error = ReceiveError::Small { length: 21, capacity: 20 };
        let scattered = case.scatter(&mut incoming, &[2; 6]);
        assert_eq!(scattered, Err(ScatterError::Receive(error.clone())));
        assert!(!memory.bytes.contains(&2), "nothing of it is scattered");
        case.abort(incoming, Some(error));
        let mut completed = vec![(20, wc_status::RECEIVE_TOO_SMALL)];
        if case.srq.is_none() {
            completed.push((21, status::WR_FLUSH_ERR));
        } else {
            assert_eq!(case.world.env.take_raised(), [Async::LastWqeReached(case.qpn)]);
        }
        assert_eq!(case.world.statuses(case.qpn), completed);
        assert_eq!(case.world.state(case.qpn), state::ERR);
    }
}

#[test]
fn a_key_that_is_bad_in_the_middle_fails_there() {
    for mut case in Case::both() {
        let mut memory = case.world.buffer(THEM, vec![0; 64]);
        let mut sges = [memory.sge(0, 10), memory.sge(10, 10), memory.sge(20, 10)];
        sges[1].lkey ^= 0xff;
        case.post(20, &sges);
        let mut incoming = case.begin().unwrap();
        assert_eq!(case.scatter(&mut incoming, &[1; 10]), Ok(()));
        let error = no_key(sges[1].lkey);
        let scattered = case.scatter(&mut incoming, &[2; 1]);
        assert_eq!(scattered, Err(ScatterError::Receive(error.clone())));
        case.abort(incoming, Some(error));
        let completed = case.world.poll(case.qpn);
        assert_eq!(completed, [Cqe::error(20, wc_status::RECEIVE_MEMORY, case.qpn)]);
    }
}

#[test]
fn a_region_may_go_between_two_parts() {
    for mut case in Case::both() {
        let mut memory = case.world.buffer(THEM, vec![0; 64]);
        case.post(20, &[memory.whole()]);
        let mut incoming = case.begin().unwrap();
        assert_eq!(case.scatter(&mut incoming, &[1; 10]), Ok(()));
        set(&case.world.arena.mr(memory.key).unwrap().live, 0);
        let refused = Err(ScatterError::Receive(no_key(memory.key)));
        assert_eq!(case.scatter(&mut incoming, &[2; 10]), refused);
        assert_eq!(memory.bytes[10], 0);
    }
}

#[test]
fn an_aborted_message_gives_its_receive_back() {
    for mut case in Case::both() {
        let mut memory = case.world.buffer(THEM, vec![0; 64]);
        case.post(20, &[memory.whole()]);
        let mut incoming = case.begin().unwrap();
        assert_eq!(case.scatter(&mut incoming, &[1; 10]), Ok(()));
        // Address 8 is not mapped.
        let part = [crate::engine::segments::Segment { addr: 8, length: 5 }];
        let part = Memory::unregistered(US, &part);
        let scattered = case.locked(|responder, actor, _| incoming.scatter(responder, actor, part));
        assert_eq!(scattered, Err(ScatterError::Source));
        case.abort(incoming, None);
        assert_eq!(case.world.state(case.qpn), state::RTS);
        if case.srq.is_some() {
            assert_eq!(case.world.statuses(case.qpn), [(20, status::WR_FLUSH_ERR)]);
            assert!(case.begin().is_none());
        } else {
            assert_eq!(case.world.poll(case.qpn), []);
            assert!(case.begin().is_some(), "it was never taken");
        }
    }
}

/// RDMA writes and reads in parts need nothing but the check, each part by itself.
#[test]
fn memory_that_the_peer_names_is_checked_with_each_part() {
    let [mut case, _] = Case::both();
    let mut memory = case.world.buffer(THEM, vec![0; 64]);
    let remote = RemoteWr { addr: memory.addr(), rkey: memory.key };
    let mut write = |offset: u64, bytes: &[u8]| {
        let from = [process_memory::ours(bytes)];
        case.locked(|responder, actor, _| {
            let part = RemoteWr { addr: remote.addr + offset, ..remote };
            let length = bytes.len() as u64;
            let reached = responder.reach(actor.arena, access::REMOTE_WRITE, part, length);
            let (segment, region) = reached.map_err(|error| error.status())?;
            let to = Memory { proc: THEM, segments: &[segment], regions: &[region] };
            let copied = actor.copier.copy(actor.arena, US, Memory::unregistered(US, &from), to);
            copied.map_err(|_: Fault| wc_status::REMOTE_MEMORY)
        })
    };
    assert_eq!(write(0, &[1; 30]), Ok(()));
    assert_eq!(write(30, &[2; 30]), Ok(()));
    assert_eq!(write(60, &[3; 5]), Err(wc_status::REMOTE_MEMORY));
    assert_eq!(write(500, &[]), Ok(()), "nobody looks at the key");
    let expected = [vec![1; 30], vec![2; 30], vec![0; 4]].concat();
    assert_eq!(memory.bytes, expected);
    set(&case.world.entry(case.qpn).access, access::REMOTE_READ);
    let refused = case.locked(|responder, actor, _| {
        responder.reach(actor.arena, access::REMOTE_WRITE, remote, 1).unwrap_err().status()
    });
    assert_eq!(refused, wc_status::REMOTE_REFUSES);
}

#[test]
fn parts_go_where_a_shared_queue_allows() {
    let [_, mut case] = Case::both();
    let srq = case.srq.unwrap();
    let mut room = case.world.buffer(THEM, vec![0; 8]);
    set(&case.world.arena.mr(room.key).unwrap().pd, PD + 1);
    let (memory, key) = (MemoryRole::Receive, room.key);
    let error =
        ReceiveError::Memory(CheckError::memory(memory, Cause::ProtectionDomain { memory, key }));
    for (pd, expected) in [(PD + 1, Ok(())), (PD, Err(ScatterError::Receive(error)))] {
        set(&case.world.arena.srqs[srq as usize].pd, pd);
        case.post(20, &[room.whole()]);
        let mut incoming = case.begin().unwrap();
        assert_eq!(case.scatter(&mut incoming, b"abc"), expected);
    }
    assert_eq!(&room.bytes[..3], b"abc");
}
