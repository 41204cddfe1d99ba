//! RDMA FLUSH.

use soft_hca_roce::transport::request::Remote;
use soft_hca_roce::transport::target::{Refusal, Target};
use soft_hca_roce::wire::headers::Feth;
use soft_hca_verbs::cause::{Cause, Malformed, MemoryRole};

use super::fabric::*;
use crate::engine::memory::bounds;
use crate::engine::remote::{Arriving, RemoteTarget};
use crate::engine::{Async, LINK, Route};
use crate::uapi::verbs::{
    AccessFlags, access, opcode, placement, qp_type, selectivity, state,
    status::{LOC_QP_OP_ERR, REM_ACCESS_ERR, REM_INV_REQ_ERR, WR_FLUSH_ERR},
    wc_opcode,
};

const GLOBAL: u32 = placement::GLOBAL;
const PERSISTENT: u32 = placement::PERSISTENT;
const WHOLE: u32 = selectivity::MR << 8;

/// A flush that is named 1.
fn flush(addr: u64, key: u32, length: u32, what: u32) -> Wr {
    Wr::new(1, opcode::FLUSH).flush(addr, key, length, what)
}

#[test]
fn a_flush_completes_behind_the_write_before_it() {
    for me in [US, DAEMON] {
        let Case { world, a, b, mut ours, mut theirs } = Case::new();
        let (addr, key) = (theirs.addr(), theirs.key);
        world.put(a, &Wr::new(0, opcode::RDMA_WRITE).sge(ours.whole()).remote(addr, key));
        world.put(a, &flush(addr, key, 64, GLOBAL));
        // Of a whole region neither address nor length count.
        world.put(a, &flush(7, key, u32::MAX, GLOBAL | WHOLE));
        // No bytes, but a key.
        world.put(a, &flush(addr + 64, key, 0, GLOBAL));
        world.actor(me).run_send_queue(a);
        let told = |wr_id, opcode, byte_len| (wr_id, 0, opcode, byte_len);
        let completions: Vec<_> = world.poll(a).into_iter().collect();
        let flushed = told(1, wc_opcode::FLUSH, 0);
        assert!(
            completions.iter().map(|cqe| (cqe.wr_id, cqe.status, cqe.opcode, cqe.byte_len)).eq([
                told(0, wc_opcode::RDMA_WRITE, 64),
                flushed,
                flushed,
                flushed
            ])
        );
        assert_eq!(theirs.bytes, ours.bytes);
        assert_eq!((world.poll(b).len(), world.state(b)), (0, state::RTS));
        world.assert_unlocked();
    }
}

#[test]
fn a_window_is_flushed_as_its_region() {
    let Case { world, a, b, mut theirs, .. } = Case::new();
    let addr = theirs.addr();
    let window = world.window(THEM, 2);
    let bind = Wr::new(9, opcode::BIND_MW).long(24, addr).long(32, 16).word(40, theirs.key);
    let rights = access::REMOTE_WRITE | access::FLUSH_GLOBAL;
    world.send(b, &bind.word(44, window).word(48, window).word(52, rights));
    assert_eq!(world.statuses(b), [(9, 0)]);
    world.send(a, &flush(addr, window, 16, GLOBAL));
    world.send(a, &flush(0, window, 0, GLOBAL | WHOLE));
    assert_eq!(world.statuses(a), [(1, 0), (1, 0)]);
    world.send(a, &flush(addr, window, 17, GLOBAL));
    assert_eq!(world.statuses(a), [(1, REM_ACCESS_ERR)]);
}

/// Something that is wrong with a flush of 8 bytes: what is done about it, the request that then is
/// posted, its status, and why.
type Wrong = (fn(&mut Case), fn(u64, u32) -> Wr, u32, fn(u64, u32) -> Cause);

fn as_it_is(_: &mut Case) {}

fn all() -> AccessFlags {
    AccessFlags::from_bits_retain(ALL)
}

fn usual(addr: u64, key: u32) -> Wr {
    flush(addr, key, 8, GLOBAL)
}

#[test]
fn errors() {
    const MEMORY: MemoryRole = MemoryRole::Remote;
    let without_any = |_: u64, _: u32| Cause::Malformed { why: Malformed::Placement };
    let cases: [Wrong; 13] = [
        // The key, and the range
        (
            as_it_is,
            |addr, _| flush(addr, 0x6600, 8, GLOBAL),
            REM_ACCESS_ERR,
            |_, _| Cause::Key { memory: MEMORY, key: 0x6600 },
        ),
        (
            as_it_is,
            |addr, _| flush(addr, 0x6600, 0, GLOBAL),
            REM_ACCESS_ERR,
            |_, _| Cause::Key { memory: MEMORY, key: 0x6600 },
        ),
        (
            as_it_is,
            |_, _| flush(0, 0x6600, 8, GLOBAL | WHOLE),
            REM_ACCESS_ERR,
            |_, _| Cause::Key { memory: MEMORY, key: 0x6600 },
        ),
        (
            as_it_is,
            |addr, key| flush(addr + 60, key, 8, GLOBAL),
            REM_ACCESS_ERR,
            |addr, key| bounds(MEMORY, key, (addr + 60, 8), (addr, 64)),
        ),
        (
            as_it_is,
            |addr, key| flush(addr, key, (1 << 31) + 1, GLOBAL),
            REM_INV_REQ_ERR,
            |_, _| Cause::MessageTooLong { length: (1 << 31) + 1, limit: 1 << 31 },
        ),
        // The region's rights
        (
            |case| {
                let region = case.world.arena.mr(case.theirs.key).unwrap();
                set(&region.access, ALL & !access::FLUSH_GLOBAL);
            },
            usual,
            REM_ACCESS_ERR,
            |_, key| Cause::Access {
                memory: MEMORY,
                key,
                needed: AccessFlags::FLUSH_GLOBAL,
                allowed: all().difference(AccessFlags::FLUSH_GLOBAL),
            },
        ),
        (
            |case| set(&case.world.entry(case.b).access, ALL | access::FLUSH_PERSISTENT),
            |addr, key| flush(addr, key, 8, GLOBAL | PERSISTENT),
            REM_ACCESS_ERR,
            |_, key| Cause::Access {
                memory: MEMORY,
                key,
                needed: AccessFlags::FLUSH_GLOBAL | AccessFlags::FLUSH_PERSISTENT,
                allowed: all(),
            },
        ),
        // The queue pair's
        (
            |case| set(&case.world.entry(case.b).access, ALL & !access::FLUSH_GLOBAL),
            usual,
            REM_INV_REQ_ERR,
            |_, _| Cause::QpAccess {
                needed: AccessFlags::FLUSH_GLOBAL,
                allowed: all().difference(AccessFlags::FLUSH_GLOBAL),
            },
        ),
        (
            as_it_is,
            |addr, key| flush(addr, key, 8, PERSISTENT),
            REM_INV_REQ_ERR,
            |_, _| Cause::QpAccess { needed: AccessFlags::FLUSH_PERSISTENT, allowed: all() },
        ),
        (
            |case| set(&case.world.entry(case.b).max_dest_rd_atomic, 0),
            usual,
            REM_INV_REQ_ERR,
            |_, _| Cause::Malformed { why: Malformed::MaxDestRdAtomic },
        ),
        // No guarantee, and an unknown one
        (as_it_is, |addr, key| flush(addr, key, 8, 0), REM_INV_REQ_ERR, without_any),
        (as_it_is, |addr, key| flush(addr, key, 8, 4), REM_INV_REQ_ERR, without_any),
        (as_it_is, |addr, key| flush(addr, key, 8, GLOBAL | 2 << 8), REM_INV_REQ_ERR, without_any),
    ];
    for (i, (break_it, request, status, cause)) in cases.into_iter().enumerate() {
        let mut case = Case::new();
        set(&case.world.arena.trace_generation, 1);
        let (addr, key) = (case.theirs.addr(), case.theirs.key);
        break_it(&mut case);
        case.world.receive(case.b, 20, &[]);
        case.world.send(case.a, &request(addr, key));
        assert_eq!(case.world.statuses(case.a), [(1, status)], "{i}");
        assert_eq!(case.world.statuses(case.b), [(20, WR_FLUSH_ERR)], "{i}");
        assert_eq!(case.world.state(case.b), state::ERR, "{i}");
        let event = match status {
            REM_ACCESS_ERR => Async::QpAccess(case.b),
            _ => Async::QpRequest(case.b),
        };
        assert!(case.world.env.take_raised().contains(&event), "{i}");
        let causes = case.world.env.take_causes();
        let told = causes.iter().find(|cause| **cause != Cause::Flushed);
        assert_eq!(told, Some(&cause(addr, key)), "{i}");
        case.world.assert_unlocked();
    }
}

#[test]
fn a_requester_without_depth_posts_no_flush() {
    let Case { world, a, b, mut theirs, .. } = Case::new();
    set(&world.entry(a).max_rd_atomic, 0);
    world.send(a, &usual(theirs.addr(), theirs.key));
    assert_eq!(world.statuses(a), [(1, LOC_QP_OP_ERR)]);
    assert_eq!(world.state(b), state::RTS);
}

#[test]
fn a_peer_on_another_host_is_answered_the_same() {
    let Case { world, b, mut theirs, .. } = Case::new();
    Route::Remote.store(&world.entry(b).route);
    let memory = Remote { address: theirs.addr(), rkey: theirs.key };
    let mut arriving = Arriving::default();
    let mut target = RemoteTarget {
        actor: world.actor(LINK),
        qpn: b,
        kind: qp_type::RC,
        arriving: &mut arriving,
    };
    let feth = |placement, selectivity| Feth { placement, selectivity };
    let elsewhere = Remote { address: memory.address + 60, ..memory };
    for (memory, length, feth, expected) in [
        (memory, 64, feth(1, 0), Ok(())),
        (elsewhere, 1 << 20, feth(1, 1), Ok(())),
        (elsewhere, 8, feth(1, 0), Err(Refusal::Access)),
        (Remote { rkey: 0x6600, ..memory }, 0, feth(1, 0), Err(Refusal::Access)),
        (memory, 8, feth(2, 0), Err(Refusal::InvalidRequest)),
        (memory, 8, feth(0, 0), Err(Refusal::InvalidRequest)),
        (memory, 8, feth(1, 3), Err(Refusal::InvalidRequest)),
    ] {
        assert_eq!(target.flush(memory, length, feth), expected, "{memory:?} {length} {feth:?}");
    }
    world.assert_unlocked();
}
