//! Why a work request fails, as it is traced: the check, and the values that it compares.

use super::fabric::*;
use crate::engine::cause::{Cause, Peer, Place, Senseless};
use crate::uapi::rxe::Sge;
use crate::uapi::verbs::{access, opcode, state};

impl Case {
    /// A pair that is traced.
    fn traced() -> Self {
        let case = Self::new();
        set(&case.world.arena.trace_generation, 1);
        case
    }

    /// Executes a request and gives why it fails, which its completion says as well.
    fn cause(&self, wr: &Wr) -> Cause {
        self.world.env.take_causes();
        self.world.send(self.a, wr);
        let causes = self.world.env.take_causes();
        let told: Vec<&Cause> = causes.iter().filter(|cause| **cause != Cause::Flushed).collect();
        assert!(told.len() >= 2 && told.iter().all(|cause| *cause == told[0]), "{causes:?}");
        *told[0]
    }

    fn write(&mut self, addr: u64, key: u32) -> Wr {
        Wr::new(1, opcode::RDMA_WRITE).sge(self.ours.sge(0, 8)).remote(addr, key)
    }
}

#[test]
fn remote_memory() {
    let place = Place::Remote;
    let mut case = Case::traced();
    let addr = case.theirs.addr();
    let wr = case.write(addr, 0x12300);
    assert_eq!(case.cause(&wr), Cause::Key { place, key: 0x12300 });

    let mut case = Case::traced();
    let (addr, key) = (case.theirs.addr(), case.theirs.key);
    let wr = case.write(addr + 60, key);
    let (access, region) = ((addr + 60, 8), (addr, 64));
    assert_eq!(case.cause(&wr), Cause::Bounds { place, key, access, region });

    let mut case = Case::traced();
    let (addr, key) = (case.theirs.addr(), case.theirs.key);
    let allowed = ALL & !access::REMOTE_WRITE;
    set(&case.world.arena.mr(key).unwrap().access, allowed);
    let wr = case.write(addr, key);
    let needed = access::REMOTE_WRITE;
    assert_eq!(case.cause(&wr), Cause::Access { place, key, needed, allowed });

    let mut case = Case::traced();
    let (addr, key) = (case.theirs.addr(), case.theirs.key);
    set(&case.world.arena.mr(key).unwrap().pd, PD + 1);
    let wr = case.write(addr, key);
    assert_eq!(case.cause(&wr), Cause::Domain { place, key });

    // The queue pair itself.
    let mut case = Case::traced();
    let (addr, key) = (case.theirs.addr(), case.theirs.key);
    set(&case.world.entry(case.b).access, access::REMOTE_READ);
    let wr = case.write(addr, key);
    let allowed = access::REMOTE_READ;
    assert_eq!(case.cause(&wr), Cause::Access { place, key: 0, needed, allowed });
}

#[test]
fn local_memory_and_requests_without_sense() {
    let mut case = Case::traced();
    let bad = Sge { lkey: 0x45600, ..case.ours.sge(0, 8) };
    let wr = Wr::new(1, opcode::SEND).sge(bad);
    assert_eq!(case.cause(&wr), Cause::Key { place: Place::Local, key: 0x45600 });

    let case = Case::traced();
    let wr = Wr::new(1, opcode::TSO);
    assert_eq!(case.cause(&wr), Cause::Malformed(Senseless::Opcode));

    let mut case = Case::traced();
    set(&case.world.entry(case.a).max_rd_atomic, 0);
    let (addr, key) = (case.theirs.addr(), case.theirs.key);
    let wr = Wr::new(1, opcode::RDMA_READ).sge(case.ours.sge(0, 8)).remote(addr, key);
    assert_eq!(case.cause(&wr), Cause::Malformed(Senseless::NoReads));

    let mut case = Case::traced();
    let (addr, key) = (case.theirs.addr(), case.theirs.key);
    let wr = Wr::new(1, opcode::ATOMIC_FETCH_AND_ADD).sge(case.ours.sge(0, 8)).atomic(
        addr + 4,
        key,
        1,
        0,
    );
    assert_eq!(case.cause(&wr), Cause::Alignment { address: addr + 4 });
}

#[test]
fn receives() {
    let mut case = Case::traced();
    case.world.receive(case.b, 20, &[case.theirs.sge(0, 7)]);
    let wr = Wr::new(1, opcode::SEND).sge(case.ours.sge(0, 8));
    assert_eq!(case.cause(&wr), Cause::Small { length: 8, room: 7, grh: 0 });

    let mut case = Case::traced();
    let bad = Sge { lkey: 0x45600, ..case.theirs.sge(0, 8) };
    case.world.receive(case.b, 20, &[bad]);
    let wr = Wr::new(1, opcode::SEND).sge(case.ours.sge(0, 8));
    assert_eq!(case.cause(&wr), Cause::Key { place: Place::Receive, key: 0x45600 });
}

#[test]
fn waiting_in_vain() {
    let case = Case::traced();
    set(&case.world.entry(case.a).rnr_retry, 1);
    case.world.put(case.a, &Wr::new(1, opcode::SEND));
    case.world.doorbell(case.a);
    let waits = Cause::NotReady { waited: 0, timer: 12, retries: 1 };
    assert_eq!(case.world.env.take_causes(), [waits]);
    case.world.env.now_ns.store(1 << 40, std::sync::atomic::Ordering::Release);
    case.world.actor(DAEMON).run_send_queue(case.a);
    let causes = case.world.env.take_causes();
    let Cause::NotReady { waited, .. } = causes[0] else { panic!("{causes:?}") };
    assert_eq!((waited, causes[1]), (1 << 40, causes[0]));

    let case = Case::traced();
    set(&case.world.entry(case.b).state, state::INIT);
    case.world.put(case.a, &Wr::new(1, opcode::SEND));
    case.world.doorbell(case.a);
    let peer = Peer::State(state::INIT);
    let waits = Cause::NoResponse { waited: 0, timeout: 14, retries: 6, peer };
    assert_eq!(case.world.env.take_causes(), [waits]);
}
