//! Rings and indices full of nonsense: nothing panics, no lock stays taken, and no byte outside of
//! what is registered changes.

use proptest::prelude::*;

use super::fabric::*;
use crate::uapi::verbs::{qp_type, state};

/// Memory that must not change, around memory that may.
const GUARD: usize = 256;

#[derive(Clone, Debug)]
struct Nonsense {
    /// Ring (send, receive, shared receive, completion), word in it, value.
    words: Vec<(usize, usize, u64)>,
    /// Slots that get a plausible beginning.
    plausible: Vec<(usize, u32, u32, u32)>,
    producers: [u32; 4],
    kind: u32,
    is_shared: bool,
    by_daemon: bool,
}

fn nonsense() -> impl Strategy<Value = Nonsense> {
    let value =
        prop_oneof![any::<u64>(), 0..64u64, Just(u64::MAX), (0..64u32).prop_map(|bit| 1 << bit)];
    (
        proptest::collection::vec((0..4usize, 48..600usize, value), 0..200),
        proptest::collection::vec((0..8usize, 0..16u32, any::<u32>(), 0..40u32), 0..8),
        any::<[u32; 4]>(),
        2..5u32,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(words, plausible, producers, kind, is_shared, by_daemon)| Nonsense {
            words,
            plausible,
            producers,
            kind,
            is_shared,
            by_daemon,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn nothing_breaks(nonsense in nonsense()) {
        let world = World::new();
        let (a, b) = world.pair(nonsense.kind);
        let srq = world.srq(7);
        if nonsense.is_shared {
            set(&world.entry(b).srq, srq + 1);
        }
        let mut memory = Buffer { bytes: vec![0xaa; 3 * GUARD], key: 0 };
        let start = memory.addr() + GUARD as u64;
        let keys = [
            world.register(US, start, GUARD as u64, ALL),
            world.register(THEM, start, GUARD as u64, ALL),
        ];
        let cq = &world.arena.cqs[world.entry(a).send_cq.load(std::sync::atomic::Ordering::Acquire) as usize];
        let places = [&world.entry(a).sq, &world.entry(b).rq, &world.arena.srqs[srq as usize].ring, &cq.ring];
        for (i, place) in places.into_iter().enumerate() {
            let ring = world.arena.ring(place).unwrap();
            for &(_, at, value) in nonsense.words.iter().filter(|(of, ..)| *of == i) {
                let per_slot = ring.slot_bytes() / 8;
                ring.slot((at / per_slot) as u32).set_u64(at % per_slot * 8, value);
            }
            for &(slot, opcode, length, num_sge) in &nonsense.plausible {
                let slot = ring.slot(slot as u32);
                if i == 0 {
                    slot.set_u32(12, opcode);
                    slot.set_u64(24, start);
                    slot.set_u32(32, keys[1]);
                    slot.set_u32(184, length);
                    slot.set_u32(196, num_sge);
                } else {
                    slot.set_u32(28, num_sge);
                }
                let base = if i == 0 { 208 } else { 40 };
                for sge in 0..num_sge as usize {
                    slot.set_u64(base + sge * 16, start);
                    slot.set_u32(base + sge * 16 + 8, length % 300);
                    slot.set_u32(base + sge * 16 + 12, keys[usize::from(i != 0)]);
                }
            }
            ring.set_producer(nonsense.producers[i]);
        }
        if nonsense.by_daemon {
            world.actor(DAEMON).run_send_queue(a);
            world.actor(DAEMON).run_send_queue(a);
        } else {
            world.doorbell(a);
        }
        world.actor(DAEMON).poll_error_receives_of(b);
        assert!(world.actor(DAEMON).enter_error(a));
        assert!(world.actor(DAEMON).enter_error(b));
        prop_assert_eq!(world.state(a), state::ERR);
        world.assert_unlocked();
        prop_assert!(memory.bytes[..GUARD].iter().all(|byte| *byte == 0xaa));
        prop_assert!(memory.bytes[2 * GUARD..].iter().all(|byte| *byte == 0xaa));
    }

    /// The same for the tables: whatever indices they hold.
    #[test]
    fn tables_may_lie(
        words in proptest::collection::vec((0..30usize, any::<u32>()), 1..12),
        opcode in 0..16u32,
    ) {
        let world = World::new();
        let (a, b) = world.pair(qp_type::RC);
        let mut memory = world.buffer(US, vec![0; 64]);
        world.receive(b, 1, &[]);
        let wr = Wr::new(1, opcode).sge(memory.whole()).remote(memory.addr(), memory.key);
        world.put(a, &wr);
        let qps = [world.entry(a), world.entry(b)];
        for (field, value) in words {
            let qp = qps[field % 2];
            let fields = [
                &qp.send_cq, &qp.recv_cq, &qp.srq, &qp.proc, &qp.pd, &qp.sq.mask, &qp.sq.log2_slot,
                &qp.rq.mask, &qp.rq.log2_slot, &qp.sq_consumer, &qp.rq_consumer, &qp.max_send_sge,
                &qp.max_recv_sge, &qp.max_inline, &qp.path_mtu,
            ];
            set(fields[field / 2], value);
        }
        let _ = world.actor(US).doorbell(a);
        world.actor(DAEMON).run_send_queue(a);
        assert!(world.actor(DAEMON).enter_error(b));
        world.assert_unlocked();
    }
}
