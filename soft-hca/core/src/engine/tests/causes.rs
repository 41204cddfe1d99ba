//! Why a work request fails, as it is traced: the check, and the values that it compares.

use soft_hca_roce::transport::request::{Failure, SendQueue, Status};
use soft_hca_roce::transport::target::{Refusal, Target};
use soft_hca_verbs::cause::{Cause, Malformed, MemoryRole, Peer};

use super::fabric::*;
use crate::engine::memory::bounds;
use crate::engine::remote::{Arriving, RemoteSends, RemoteTarget, Sending};
use crate::engine::{LINK, Route};
use crate::uapi::rxe::Sge;
use crate::uapi::verbs::{AccessFlags, QpState, access, opcode, qp_type, state};

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
    let memory = MemoryRole::Remote;
    let mut case = Case::traced();
    let addr = case.theirs.addr();
    let wr = case.write(addr, 0x12300);
    assert_eq!(case.cause(&wr), Cause::Key { memory, key: 0x12300 });

    let mut case = Case::traced();
    let (addr, key) = (case.theirs.addr(), case.theirs.key);
    let wr = case.write(addr + 60, key);
    let (access, region) = ((addr + 60, 8), (addr, 64));
    assert_eq!(case.cause(&wr), bounds(memory, key, access, region));

    let mut case = Case::traced();
    let (addr, key) = (case.theirs.addr(), case.theirs.key);
    let allowed = ALL & !access::REMOTE_WRITE;
    set(&case.world.arena.mr(key).unwrap().access, allowed);
    let wr = case.write(addr, key);
    let [needed, allowed] = [access::REMOTE_WRITE, allowed].map(AccessFlags::from_bits_retain);
    assert_eq!(case.cause(&wr), Cause::Access { memory, key, needed, allowed });

    let mut case = Case::traced();
    let (addr, key) = (case.theirs.addr(), case.theirs.key);
    set(&case.world.arena.mr(key).unwrap().pd, PD + 1);
    let wr = case.write(addr, key);
    assert_eq!(case.cause(&wr), Cause::ProtectionDomain { memory, key });

    // The queue pair itself.
    let mut case = Case::traced();
    let (addr, key) = (case.theirs.addr(), case.theirs.key);
    set(&case.world.entry(case.b).access, access::REMOTE_READ);
    let wr = case.write(addr, key);
    assert_eq!(case.cause(&wr), Cause::QpAccess { needed, allowed: AccessFlags::REMOTE_READ });
}

#[test]
fn local_memory_and_requests_without_sense() {
    let mut case = Case::traced();
    let bad = Sge { lkey: 0x45600, ..case.ours.sge(0, 8) };
    let wr = Wr::new(1, opcode::SEND).sge(bad);
    assert_eq!(case.cause(&wr), Cause::Key { memory: MemoryRole::Local, key: 0x45600 });

    let case = Case::traced();
    let wr = Wr::new(1, opcode::TSO);
    assert_eq!(case.cause(&wr), Cause::Malformed { why: Malformed::Opcode });

    let mut case = Case::traced();
    set(&case.world.entry(case.a).max_rd_atomic, 0);
    let (addr, key) = (case.theirs.addr(), case.theirs.key);
    let wr = Wr::new(1, opcode::RDMA_READ).sge(case.ours.sge(0, 8)).remote(addr, key);
    assert_eq!(case.cause(&wr), Cause::Malformed { why: Malformed::MaxRdAtomic });

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
    assert_eq!(case.cause(&wr), Cause::ReceiveTooSmall { length: 8, room: 7, grh: 0 });

    let mut case = Case::traced();
    let bad = Sge { lkey: 0x45600, ..case.theirs.sge(0, 8) };
    case.world.receive(case.b, 20, &[bad]);
    let wr = Wr::new(1, opcode::SEND).sge(case.ours.sge(0, 8));
    assert_eq!(case.cause(&wr), Cause::Key { memory: MemoryRole::Receive, key: 0x45600 });
}

#[test]
fn waiting_in_vain() {
    let case = Case::traced();
    set(&case.world.entry(case.a).rnr_retry, 1);
    case.world.put(case.a, &Wr::new(1, opcode::SEND));
    case.world.doorbell(case.a);
    let waits = Cause::ReceiverNotReady { waited: 0, min_rnr_timer: 12, rnr_retry: 1 };
    assert_eq!(case.world.env.take_causes(), [waits]);
    case.world.env.now_ns.store(1 << 40, std::sync::atomic::Ordering::Release);
    case.world.actor(DAEMON).run_send_queue(case.a);
    let causes = case.world.env.take_causes();
    let Cause::ReceiverNotReady { waited, .. } = causes[0] else { panic!("{causes:?}") };
    assert_eq!((waited, causes[1]), (1 << 40, causes[0]));

    let case = Case::traced();
    set(&case.world.entry(case.b).state, state::INIT);
    case.world.put(case.a, &Wr::new(1, opcode::SEND));
    case.world.doorbell(case.a);
    let peer = Peer::InState { state: QpState::INIT };
    let waits = Cause::NoResponse { waited: 0, timeout: 14, retry_cnt: 6, peer };
    assert_eq!(case.world.env.take_causes(), [waits]);
}

#[test]
fn a_result_that_does_not_fit() {
    let mut case = Case::traced();
    let (addr, key) = (case.theirs.addr(), case.theirs.key);
    let small = [case.ours.sge(0, 3), case.ours.sge(8, 1)];
    let wr = Wr::new(1, opcode::ATOMIC_FETCH_AND_ADD).atomic(addr, key, 1, 0);
    let wr = small.into_iter().fold(wr, Wr::sge);
    assert_eq!(case.cause(&wr), Cause::MessageTooLong { length: 8, limit: 4 });
}

/// The first check that fails is the cause, whatever else is wrong.
#[test]
fn the_check_that_has_failed_is_the_one_that_is_told() {
    let mut case = Case::traced();
    set(&case.world.entry(case.a).max_send_sge, 1);
    let wr = Wr::new(1, opcode::TSO).sge(case.ours.sge(0, 1)).sge(case.ours.sge(0, 1));
    assert_eq!(case.cause(&wr), Cause::Malformed { why: Malformed::Opcode });

    let mut case = Case::traced();
    set(&case.world.entry(case.b).max_dest_rd_atomic, 0);
    set(&case.world.entry(case.b).access, 0);
    let (address, key) = (case.theirs.addr() + 4, case.theirs.key);
    let wr = Wr::new(1, opcode::ATOMIC_FETCH_AND_ADD).sge(case.ours.sge(0, 8));
    assert_eq!(case.cause(&wr.atomic(address, key, 1, 0)), Cause::Alignment { address });
}

#[test]
fn windows() {
    let case = Case::traced();
    let wr = Wr::new(1, opcode::LOCAL_INV).imm(0x12300);
    let (memory, key) = (MemoryRole::Local, 0x12300);
    assert_eq!(case.cause(&wr), Cause::Window { memory, key });

    // Its region is gone.
    let mut case = Case::traced();
    let addr = case.theirs.addr();
    let key = case.world.window(THEM, 1);
    let (mw, region) = (case.world.arena.mr(key).unwrap(), case.world.arena.mr(case.theirs.key));
    set(&mw.access, ALL);
    set(&mw.bound, case.theirs.key >> 8);
    set(&region.unwrap().live, 0);
    let wr = case.write(addr, key);
    assert_eq!(case.cause(&wr), Cause::Window { memory: MemoryRole::Remote, key });
}

/// The checks of a request whose peer is on another host are this host's as far as its own memory
/// goes; of the others only the answer's status is known.
#[test]
fn peers_on_another_host() {
    let posted = |kind| {
        let mut case = Case::traced();
        Route::Remote.store(&case.world.entry(case.a).route);
        set(&case.world.entry(case.a).max_rd_atomic, 0);
        case.world.put(case.a, &Wr::new(1, kind).sge(case.ours.sge(0, 8)));
        case
    };
    let case = posted(opcode::RDMA_READ);
    let (actor, qpn, mut sending) = (case.world.actor(LINK), case.a, Sending::default());
    let next = RemoteSends { actor, qpn, sending: &mut sending }.next_request();
    assert!(matches!(next, Ok(None)), "{next:?}");
    assert_eq!(case.world.env.take_causes(), [Cause::Malformed { why: Malformed::MaxRdAtomic }; 2]);

    let case = posted(opcode::SEND);
    let (actor, qpn, sending) = (case.world.actor(LINK), case.a, &mut Sending::default());
    let mut sends = RemoteSends { actor, qpn, sending };
    assert!(matches!(sends.next_request(), Ok(Some(_))));
    let (memory, key) = (MemoryRole::Local, case.ours.key);
    set(&case.world.arena.mr(key).unwrap().live, 0);
    let failed = Err(Failure::Failed(Status::LocalProtection));
    assert_eq!(sends.gather(0, 0, &mut [&mut [0; 8]]), failed);
    assert_eq!(sends.complete(0, Status::LocalProtection), Ok(()));
    assert_eq!(case.world.env.take_causes(), [Cause::Key { memory, key }; 2]);

    let mut case = Case::traced();
    let key = case.theirs.key;
    case.world.receive(case.b, 20, &[case.theirs.sge(0, 8)]);
    let mut arriving = Arriving::default();
    let (actor, qpn, kind) = (case.world.actor(LINK), case.b, qp_type::RC);
    let mut target = RemoteTarget { actor, qpn, kind, arriving: &mut arriving };
    assert_eq!(target.consume_receive(), Ok(()));
    set(&case.world.arena.mr(key).unwrap().pd, PD + 1);
    assert_eq!(target.scatter(0, &[b"12345678"]), Err(Refusal::Receive));
    assert_eq!(target.fail(Refusal::Receive), Ok(()));
    assert_eq!(
        case.world.env.take_causes(),
        [Cause::ProtectionDomain { memory: MemoryRole::Receive, key }]
    );
}
