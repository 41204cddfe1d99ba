//! Memory windows, and invalidation.

use std::sync::atomic::Ordering::Acquire;

use super::fabric::*;
use crate::uapi::verbs::{
    access, opcode, state,
    status::{MW_BIND_ERR, REM_ACCESS_ERR, WR_FLUSH_ERR},
    wc_flag, wc_opcode,
};

/// The responder binds windows over its memory; the requester uses them.
struct Case {
    world: World,
    a: u32,
    b: u32,
    theirs: Buffer,
}

/// A bind request.
#[derive(Clone, Copy)]
struct Bind {
    addr: u64,
    length: u64,
    lkey: u32,
    rkey: u32,
    new_rkey: u32,
    access: u32,
}

impl Bind {
    fn wr(self) -> Wr {
        Wr::new(70, opcode::BIND_MW)
            .long(24, self.addr)
            .long(32, self.length)
            .word(40, self.lkey)
            .word(44, self.rkey)
            .word(48, self.new_rkey)
            .word(52, self.access)
    }
}

impl Case {
    fn new() -> Self {
        let world = World::new();
        let (a, b) = world.rc();
        let theirs = world.buffer(THEM, vec![0; 64]);
        Self { world, a, b, theirs }
    }

    /// A bind of a new window to bytes 16 to 32.
    fn bind(&mut self, kind: u32) -> Bind {
        let rkey = self.world.window(THEM, kind);
        Bind {
            addr: self.theirs.addr() + 16,
            length: 16,
            lkey: self.theirs.key,
            rkey,
            new_rkey: rkey & !0xff | (rkey + 1) & 0xff,
            access: access::REMOTE_WRITE | access::REMOTE_READ,
        }
    }

    fn bound(&self) -> u32 {
        self.world.arena.mr(self.theirs.key).unwrap().bound.load(Acquire)
    }

    /// The status of a write to bytes at an offset with a key.
    fn write(&mut self, key: u32, offset: u64, length: usize) -> u32 {
        let addr = self.theirs.addr().wrapping_add(offset);
        self.world.send(
            self.a,
            &Wr::new(1, opcode::RDMA_WRITE).inline(&vec![7; length]).remote(addr, key),
        );
        self.world.poll(self.a)[0].status
    }

    fn execute(&self, wr: &Wr) -> Vec<(u64, u32)> {
        self.world.send(self.b, wr);
        self.world.statuses(self.b)
    }
}

#[test]
fn a_window_opens_a_part() {
    for kind in [1, 2] {
        let mut case = Case::new();
        let bind = case.bind(kind);
        case.world.send(case.b, &bind.wr());
        let [cqe] = case.world.poll(case.b).try_into().unwrap();
        assert_eq!((cqe.status, cqe.opcode, cqe.byte_len), (0, wc_opcode::BIND_MW, 0));
        assert_eq!(case.bound(), 1);
        assert_eq!(case.write(bind.new_rkey, 16, 16), 0);
        assert_eq!(case.theirs.bytes[15..33], [&[0][..], &[7; 16], &[0]].concat());
        assert_eq!(case.write(bind.new_rkey, 15, 1), REM_ACCESS_ERR);
        for (offset, length) in [(32, 1), (16, 17)] {
            let mut case = Case::new();
            let bind = case.bind(kind);
            case.execute(&bind.wr());
            assert_eq!(case.write(bind.new_rkey, offset, length), REM_ACCESS_ERR);
            assert_eq!(case.world.state(case.b), state::ERR);
        }
    }
}

#[test]
fn the_old_key_and_an_unbound_window_are_useless() {
    for kind in [1, 2] {
        let mut case = Case::new();
        let bind = case.bind(kind);
        assert_eq!(case.write(bind.rkey, 16, 1), REM_ACCESS_ERR);
        let mut case = Case::new();
        let bind = case.bind(kind);
        case.execute(&bind.wr());
        assert_eq!(case.write(bind.rkey, 16, 1), REM_ACCESS_ERR);
    }
}

#[test]
fn of_a_new_key_the_lowest_byte_counts() {
    for kind in [1, 2] {
        let mut case = Case::new();
        let bind = case.bind(kind);
        let far = Bind { new_rkey: bind.new_rkey ^ 0xa5a5_a500, ..bind };
        assert_eq!(case.execute(&far.wr()), [(70, 0)]);
        assert_eq!(case.write(bind.new_rkey, 16, 16), 0);
        assert_eq!(case.write(far.new_rkey, 16, 16), REM_ACCESS_ERR);
    }
}

#[test]
fn type_1_is_bound_anew_and_unbound() {
    let mut case = Case::new();
    let bind = case.bind(1);
    assert_eq!(case.execute(&bind.wr()), [(70, 0)]);
    let key = |old: u32| old & !0xff | (old + 1) & 0xff;
    let again =
        Bind { rkey: bind.new_rkey, new_rkey: key(bind.new_rkey), addr: bind.addr + 8, ..bind };
    assert_eq!(case.execute(&again.wr()), [(70, 0)]);
    assert_eq!(case.bound(), 1);
    assert_eq!(case.write(again.new_rkey, 39, 1), 0);
    let none =
        Bind { rkey: again.new_rkey, new_rkey: key(again.new_rkey), length: 0, lkey: 0, ..bind };
    assert_eq!(case.execute(&none.wr()), [(70, 0)]);
    assert_eq!(case.bound(), 0);
    assert_eq!(case.write(none.new_rkey, 24, 1), REM_ACCESS_ERR);
}

#[test]
fn a_window_can_be_zero_based() {
    let mut case = Case::new();
    let bind = case.bind(2);
    let bind = Bind { access: bind.access | access::ZERO_BASED, ..bind };
    assert_eq!(case.execute(&bind.wr()), [(70, 0)]);
    let base = case.theirs.addr();
    assert_eq!(case.write(bind.new_rkey, 0u64.wrapping_sub(base) + 15, 1), 0);
    assert_eq!(case.theirs.bytes[31], 7);
}

#[test]
fn binds_that_are_refused() {
    /// A defect of a bind request.
    type Break = fn(&mut Case, Bind) -> Bind;
    let causes: [Break; 8] = [
        |case, bind| {
            set(&case.world.arena.mr(bind.lkey).unwrap().access, ALL & !access::MW_BIND);
            bind
        },
        |case, bind| {
            set(&case.world.arena.mr(bind.lkey).unwrap().access, access::MW_BIND);
            bind
        },
        |_, bind| Bind { rkey: bind.rkey ^ 1, ..bind },
        |_, bind| Bind { lkey: bind.lkey ^ 1, ..bind },
        |_, bind| Bind { addr: bind.addr - 17, ..bind },
        |_, bind| Bind { length: 49, ..bind },
        |_, bind| Bind { length: u64::MAX, ..bind },
        |case, bind| {
            set(&case.world.arena.mr(bind.rkey).unwrap().pd, PD + 1);
            bind
        },
    ];
    // The traced events.
    let told = [
        "Access",
        "Access",
        "Malformed { why: Window }",
        "Key",
        "Bounds",
        "Bounds",
        "Bounds",
        "Malformed { why: Window }",
    ];
    for (i, cause) in causes.into_iter().enumerate() {
        for kind in [1, 2] {
            let mut case = Case::new();
            set(&case.world.arena.trace_generation, 1);
            let bind = case.bind(kind);
            let wr = cause(&mut case, bind).wr();
            assert_eq!(case.execute(&wr), [(70, MW_BIND_ERR)], "{i}");
            let why = format!("{:?}", case.world.env.take_causes().first().unwrap());
            assert!(why.starts_with(told[i]), "{i}: {why}");
            assert_eq!(case.world.state(case.b), state::ERR);
            assert_eq!(case.bound(), 0);
        }
    }
    // Of type 2: bound already, bound to nothing. Of type 1: zero-based.
    let mut case = Case::new();
    let bind = case.bind(2);
    case.execute(&bind.wr());
    let again = Bind { rkey: bind.new_rkey, ..bind };
    assert_eq!(case.execute(&again.wr()), [(70, MW_BIND_ERR)]);
    let mut case = Case::new();
    let none = Bind { length: 0, ..case.bind(2) };
    assert_eq!(case.execute(&none.wr()), [(70, MW_BIND_ERR)]);
    let mut case = Case::new();
    let bind = case.bind(1);
    let zero_based = Bind { access: bind.access | access::ZERO_BASED, ..bind };
    assert_eq!(case.execute(&zero_based.wr()), [(70, MW_BIND_ERR)]);
}

#[test]
fn local_invalidation() {
    let mut case = Case::new();
    let bind = case.bind(2);
    case.execute(&bind.wr());
    case.world.send(case.b, &Wr::new(71, opcode::LOCAL_INV).imm(bind.new_rkey));
    let [cqe] = case.world.poll(case.b).try_into().unwrap();
    assert_eq!((cqe.status, cqe.opcode), (0, wc_opcode::LOCAL_INV));
    assert_eq!(case.bound(), 0);
    // It can be bound again, with the key that it has now.
    let again = Bind { rkey: bind.new_rkey, ..bind };
    assert_eq!(case.execute(&again.wr()), [(70, 0)]);
    case.execute(&Wr::new(71, opcode::LOCAL_INV).imm(bind.new_rkey));
    assert_eq!(case.write(bind.new_rkey, 16, 1), REM_ACCESS_ERR);
}

#[test]
fn invalidations_that_are_refused() {
    let mut case = Case::new();
    let unbound = case.world.window(THEM, 2);
    let region = case.theirs.key;
    let type_1 = case.bind(1);
    for key in [unbound, region, type_1.new_rkey, 0, u32::MAX] {
        let mut case = Case::new();
        let _ = case.world.window(THEM, 2);
        let bind = case.bind(1);
        case.execute(&bind.wr());
        let wr = Wr::new(71, opcode::LOCAL_INV).imm(key);
        assert_eq!(case.execute(&wr), [(71, MW_BIND_ERR)], "{key:#x}");
    }
    // A window that another queue pair has bound
    let mut case = Case::new();
    let bind = case.bind(2);
    let (_, other) = case.world.rc();
    case.execute(&bind.wr());
    case.world.send(other, &Wr::new(71, opcode::LOCAL_INV).imm(bind.new_rkey));
    assert_eq!(case.world.statuses(other), [(71, MW_BIND_ERR)]);
    assert_eq!(case.write(bind.new_rkey, 16, 1), 0, "still bound");
}

#[test]
fn a_window_of_type_2_is_its_queue_pairs_own() {
    let mut case = Case::new();
    let bind = case.bind(2);
    let (_, other) = case.world.rc();
    case.world.send(other, &bind.wr());
    assert_eq!(case.world.statuses(other), [(70, 0)]);
    assert_eq!(case.write(bind.new_rkey, 16, 1), REM_ACCESS_ERR);
}

#[test]
fn a_send_invalidates() {
    let mut case = Case::new();
    let bind = case.bind(2);
    case.execute(&bind.wr());
    case.world.receive(case.b, 20, &[]);
    case.world.receive(case.b, 21, &[]);
    // In one list: what comes behind it cannot use the window any more.
    let (addr, key) = (bind.addr, bind.new_rkey);
    case.world.put(case.a, &Wr::new(1, opcode::RDMA_WRITE).inline(b"a").remote(addr, key));
    case.world.put(case.a, &Wr::new(2, opcode::SEND_WITH_INV).imm(key));
    case.world.put(case.a, &Wr::new(3, opcode::RDMA_WRITE).inline(b"b").remote(addr + 1, key));
    case.world.doorbell(case.a);
    assert_eq!(case.world.statuses(case.a), [(1, 0), (2, 0), (3, REM_ACCESS_ERR)]);
    assert_eq!(case.theirs.bytes[16..18], [b'a', 0]);
    let all = case.world.poll(case.b);
    assert_eq!((all[0].wr_id, all[0].imm), (20, key));
    assert_eq!(all[0].wc_flags, wc_flag::GRH | wc_flag::WITH_INV);
    assert_eq!((all[1].wr_id, all[1].status), (21, WR_FLUSH_ERR));
    assert_eq!(case.bound(), 0);
}

#[test]
fn a_send_that_must_not_invalidate() {
    let case = Case::new();
    case.world.receive(case.b, 20, &[]);
    let key = case.theirs.key;
    case.world.receive(case.b, 21, &[]);
    case.world.put(case.a, &Wr::new(1, opcode::SEND_WITH_INV).imm(key));
    case.world.put(case.a, &Wr::new(2, opcode::SEND));
    case.world.doorbell(case.a);
    // The message has arrived; what comes behind it finds nobody.
    assert_eq!(case.world.statuses(case.a), [(1, 0)]);
    assert_eq!(case.world.statuses(case.b), [(20, MW_BIND_ERR), (21, WR_FLUSH_ERR)]);
    assert_eq!((case.world.state(case.a), case.world.state(case.b)), (state::RTS, state::ERR));
    assert_eq!(case.world.env.take_raised(), []);
}

/// Behind others in one list, which arrive.
#[test]
fn a_send_that_must_not_invalidate_behind_others() {
    let mut case = Case::new();
    let memory = case.theirs.whole();
    for wr_id in [20, 21, 22] {
        case.world.receive(case.b, wr_id, &[memory]);
    }
    case.world.put(case.a, &Wr::new(1, opcode::SEND).inline(b"first"));
    let key = case.theirs.key;
    case.world.put(case.a, &Wr::new(2, opcode::SEND_WITH_INV).imm(key).inline(b"second"));
    case.world.doorbell(case.a);
    assert_eq!(case.world.statuses(case.a), [(1, 0), (2, 0)]);
    let expected = [(20, 0), (21, MW_BIND_ERR), (22, WR_FLUSH_ERR)];
    assert_eq!(case.world.statuses(case.b), expected);
    case.world.assert_unlocked();
}

#[test]
fn a_window_ends_with_its_region() {
    let mut case = Case::new();
    let bind = case.bind(1);
    case.execute(&bind.wr());
    case.world
        .arena
        .mr(case.theirs.key)
        .unwrap()
        .live
        .store(0, std::sync::atomic::Ordering::Release);
    assert_eq!(case.write(bind.new_rkey, 16, 1), REM_ACCESS_ERR);
}
