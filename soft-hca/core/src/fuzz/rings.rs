//! Rings, indices and tables as a program may leave them, well-formed requests between, and the
//! engine on top: nothing panics, no lock stays taken, no byte outside of what is registered
//! changes, and no run brings forth more completions than there were requests.

use std::sync::atomic::Ordering::{Acquire, Release};

use arbitrary::{Result, Unstructured};

use crate::arena::{HEAP_START, RingLocation};
use crate::engine::tests::fabric::*;
use crate::errno::Errno;
use crate::ring;
use crate::system::page_bytes;
use crate::uapi::rxe::{Cqe, Sge};
use crate::uapi::verbs::state;

/// Bytes of memory that may change, between as many that must not on either side.
const REGION: usize = 256;
/// Bytes of the longest message that anything here can make, by far.
const MAX_MESSAGE: u32 = 0x80_0000;
/// The content of memory that must not change.
const UNTOUCHED: u8 = 0xaa;

/// The start of a run, and what has been done to it.
struct Case {
    world: World,
    memory: Buffer,
    qps: [u32; 2],
    srq: u32,
    /// Keys of the region, a window, and none at all.
    keys: [u32; 5],
    /// The completion queues have been written to by nobody but the engine.
    queues_are_whole: bool,
    /// No two rings share memory.
    rings_are_apart: bool,
}

/// Any bytes.
pub fn run(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let Ok(mut case) = Case::new(&mut u) else { return };
    while !u.is_empty() && case.step(&mut u).is_ok() {}
    case.end();
}

impl Case {
    fn new(u: &mut Unstructured<'_>) -> Result<Self> {
        let world = World::new();
        let (a, b) = world.pair(u.int_in_range(2..=4)?);
        let srq = world.srq(7);
        for (qpn, is_shared) in [(a, u.arbitrary()?), (b, u.arbitrary()?)] {
            if is_shared {
                set(&world.entry(qpn).srq, srq + 1);
            }
        }
        let mut memory = Buffer { bytes: vec![UNTOUCHED; 3 * REGION], key: 0 };
        let start = memory.addr() + REGION as u64;
        let region = |proc| world.register(proc, start, REGION as u64, ALL);
        let keys = [region(US), region(THEM), world.window(US, 1), world.window(THEM, 2), 0];
        let (queues_are_whole, rings_are_apart) = (true, true);
        Ok(Self { world, memory, qps: [a, b], srq, keys, queues_are_whole, rings_are_apart })
    }

    fn step(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let qpn = *u.choose(&self.qps)?;
        let as_daemon = u.ratio(1, 4)?;
        match u.int_in_range(0..=13)? {
            0 => self.disturb_ring(u)?,
            1 => self.lie(u)?,
            2..=4 => self.post_send(u, qpn)?,
            5 | 6 => self.post_receive(u, qpn)?,
            7 => self.poll(u)?,
            8 => self.world.actor(US).arm(u.int_in_range(0..=3)?, u.arbitrary()?),
            9 => set(&self.world.entry(qpn).state, u.int_in_range(0..=7)?),
            10 => self.pass(u.arbitrary::<u32>()?),
            11 => self.engine(|world| assert!(world.actor(DAEMON).enter_error(qpn))),
            12 => self.engine(|world| world.actor(DAEMON).poll_error_receives_of(qpn)),
            _ if as_daemon => self.engine(|world| world.actor(DAEMON).run_send_queue(qpn)),
            _ => self.engine(|world| {
                let me = if qpn == self.qps[0] { US } else { THEM };
                let outcome = world.actor(me).doorbell(qpn);
                assert!([Ok(()), Err(Errno::EINVAL), Err(Errno::ENOENT)].contains(&outcome));
            }),
        }
        Ok(())
    }

    /// Places of all rings, the completion queues' last.
    fn places(&self) -> [&RingLocation; 9] {
        let [a, b] = self.qps.map(|qpn| self.world.entry(qpn));
        let arena = &self.world.arena;
        let srq = &arena.srqs[self.srq as usize].ring;
        let (ours, theirs) = (&arena.cqs[0], &arena.cqs[1]);
        let queues = [&a.sq, &b.sq, &a.rq, &b.rq, srq];
        let completions = [&ours.ring, &theirs.ring, &ours.eager, &theirs.eager];
        std::array::from_fn(|i| queues.get(i).copied().unwrap_or_else(|| completions[i - 5]))
    }

    fn disturb_ring(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let which = u.choose_index(9)?;
        self.queues_are_whole &= which < 5;
        let Some(ring) = self.world.arena.ring(self.places()[which]) else { return Ok(()) };
        match u.int_in_range(0..=3)? {
            0 => ring.set_producer(u.arbitrary()?),
            1 => ring.set_consumer(u.arbitrary()?),
            _ => {
                let slot = ring.slot(u.arbitrary::<u8>()?.into());
                slot.set_u32(usize::from(u.arbitrary::<u8>()?) * 4, word(u)?);
            }
        }
        Ok(())
    }

    fn lie(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let which = u.choose_index(self.qps.len())?;
        let (qp, other) =
            (self.world.entry(self.qps[which]), self.world.entry(self.qps[1 - which]));
        let fields = [
            &qp.send_cq,
            &qp.recv_cq,
            &qp.srq,
            &qp.proc,
            &qp.pd,
            &qp.sq.log2_slot,
            &qp.rq.log2_slot,
            &qp.sq_consumer,
            &qp.rq_consumer,
            &qp.max_send_sge,
            &qp.max_recv_sge,
            &qp.max_inline,
            &qp.path_mtu,
            &qp.access,
            &qp.qkey,
            &qp.pkey,
            &qp.dest_qpn,
            &qp.rq_psn,
            &qp.sq_psn,
            &qp.timeout,
            &qp.retry_cnt,
            &qp.rnr_retry,
            &qp.min_rnr_timer,
            &qp.max_rd_atomic,
            &qp.max_dest_rd_atomic,
            &qp.sqd_notify,
            &qp.wait,
            &qp.qp_type,
        ];
        match u.choose_index(fields.len() + 4)? {
            0 => set(&qp.sq.mask, u.arbitrary::<u32>()? & 0xfff),
            1 => set(&qp.rq.mask, u.arbitrary::<u32>()? & 0xfff),
            2 => qp.wait_deadline_ns.store(u.arbitrary()?, Release),
            3 => {
                // Somewhere in the first rings, where another ring may be.
                let page: u8 = u.arbitrary()?;
                let offset = (HEAP_START + usize::from(page % 64) * page_bytes()) as u64;
                let place = *u.choose(&[&qp.sq, &qp.rq, &other.rq])?;
                place.offset.store(if page == 255 { u.arbitrary()? } else { offset }, Release);
            }
            i => set(fields[i - 4], word(u)?),
        }
        self.look_for_shared_memory();
        Ok(())
    }

    /// A ring that has moved or grown may lie over others.
    fn look_for_shared_memory(&mut self) {
        let spans = self.places().map(|place| {
            self.world.arena.ring(place)?;
            let bytes = ring::bytes(place.mask.load(Acquire), place.log2_slot.load(Acquire))?;
            let start = usize::try_from(place.offset.load(Acquire)).ok()?;
            Some((start, start + bytes))
        });
        for (which, span) in spans.iter().enumerate() {
            let is_shared = spans[..which]
                .iter()
                .flatten()
                .any(|other| span.is_some_and(|(start, end)| start < other.1 && other.0 < end));
            self.rings_are_apart &= !is_shared;
            // The queues are the last, so that all others come before them.
            self.queues_are_whole &= !(is_shared && which >= 5);
        }
    }

    /// An SGE of a request: mostly of the region.
    fn sge(&mut self, u: &mut Unstructured<'_>) -> Result<Sge> {
        let addr = self.address(u)?;
        let length = if u.ratio(1, 16)? { u.arbitrary()? } else { u.int_in_range(0..=80)? };
        Ok(Sge { addr, length, lkey: *u.choose(&self.keys)? })
    }

    fn address(&mut self, u: &mut Unstructured<'_>) -> Result<u64> {
        let start = self.memory.addr() + REGION as u64;
        Ok(match u.arbitrary::<u8>()? {
            0xff => u.arbitrary()?,
            // Rather at the edges.
            at if at % 4 == 0 => start - 16 + u64::from(at),
            at => start + REGION as u64 - 16 + u64::from(at / 8),
        })
    }

    fn post_send(&mut self, u: &mut Unstructured<'_>, qpn: u32) -> Result<()> {
        let mut wr = Wr::new(u.arbitrary::<u8>()?.into(), u.int_in_range(0..=16)?);
        wr.flags = u.int_in_range(0..=15)?;
        if wr.flags & crate::uapi::verbs::send_flag::INLINE != 0 {
            let length = u.int_in_range(0..=304)?;
            wr.inline = Some(vec![7; length]);
        }
        for _ in 0..u.int_in_range(0..=5)? {
            let sge = self.sge(u)?;
            wr = wr.sge(sge);
        }
        let (addr, key) = (self.address(u)?, *u.choose(&self.keys)?);
        wr = match u.int_in_range(0..=4)? {
            0 => wr.atomic(addr, key, u.arbitrary::<u8>()?.into(), 1),
            1 => wr.long(24, addr).long(32, 64).word(40, key).word(44, *u.choose(&self.keys)?),
            2 => wr.word(24 + 4 * u.choose_index(8)?, word(u)?),
            3 => wr.flush(addr, key, u.arbitrary::<u8>()?.into(), u.int_in_range(0..=0x303)?),
            _ => wr.remote(addr, key),
        };
        let ring = self.world.arena.ring(&self.world.entry(qpn).sq);
        if ring.is_some_and(|ring| !ring.is_full() && ring.slot_bytes() >= 208) {
            self.world.put(qpn, &wr);
        }
        Ok(())
    }

    fn post_receive(&mut self, u: &mut Unstructured<'_>, qpn: u32) -> Result<()> {
        let sges = (0..u.int_in_range(0..=4)?).map(|_| self.sge(u)).collect::<Result<Vec<_>>>()?;
        let wr_id = u.arbitrary::<u8>()?.into();
        let is_shared: bool = u.arbitrary()?;
        let shared = &self.world.arena.srqs[self.srq as usize].ring;
        let place = if is_shared { shared } else { &self.world.entry(qpn).rq };
        let has_room = self.world.arena.ring(place).is_some_and(|ring| !ring.is_full());
        if has_room
            && sges.iter().try_fold(0, |sum: u32, sge| sum.checked_add(sge.length)).is_some()
        {
            if is_shared {
                self.world.receive_shared(self.srq, wr_id, &sges);
            } else {
                self.world.receive(qpn, wr_id, &sges);
            }
        }
        Ok(())
    }

    /// Takes all completions from a queue, each one that the specification knows.
    fn poll(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let completions = self.world.poll_cq(u.int_in_range(0..=1)?);
        if self.queues_are_whole {
            completions.iter().for_each(|cqe| self.check_completion(cqe));
        }
        Ok(())
    }

    fn check_completion(&self, cqe: &Cqe) {
        assert!(matches!(cqe.status, 0..=2 | 4..=6 | 8..=13), "{cqe:?}");
        assert!(self.qps.contains(&cqe.qp_num), "{cqe:?}");
        assert!(cqe.status == 0 || (cqe.byte_len == 0 && cqe.wc_flags == 0), "{cqe:?}");
        assert!(cqe.byte_len <= MAX_MESSAGE, "{cqe:?}");
    }

    /// Time goes by, and the daemon does what was left to it.
    fn pass(&mut self, ns: u32) {
        self.world.env.now_ns.fetch_add(u64::from(ns) << 8, std::sync::atomic::Ordering::AcqRel);
        for (qpn, _) in self.world.env.take_rescheduled() {
            self.engine(|world| world.actor(DAEMON).run_send_queue(qpn));
        }
        self.world.env.take_wakes();
        self.world.env.take_raised();
    }

    /// Requests that wait in all rings, as the engine counts them.
    fn waiting(&self) -> u32 {
        let [a, b] = self.qps.map(|qpn| self.world.entry(qpn));
        let srq = &self.world.arena.srqs[self.srq as usize].consumer;
        let consumers = [&a.sq_consumer, &b.sq_consumer, &a.rq_consumer, &b.rq_consumer, srq];
        let waiting = consumers.into_iter().zip(self.places()).map(|(consumer, place)| {
            let ring = self.world.arena.ring(place);
            ring.map_or(0, |ring| ring.distance(consumer.load(Acquire), ring.producer()))
        });
        waiting.sum()
    }

    /// Where each completion queue is filled next, what it has lost, and the mask of its indices.
    fn filled(&self) -> [(u32, u32, u32); 2] {
        [0, 1].map(|i| {
            let cq = &self.world.arena.cqs[i];
            let ring = self.world.arena.ring(&cq.ring).expect("nobody moves these");
            (ring.producer(), cq.overflows.load(Acquire), ring.mask())
        })
    }

    fn engine(&self, act: impl FnOnce(&World)) {
        let (waiting, before) = (self.waiting(), self.filled());
        act(&self.world);
        self.world.assert_unlocked();
        if self.rings_are_apart {
            let added = before.into_iter().zip(self.filled()).map(|(before, after)| {
                (after.0.wrapping_sub(before.0) & before.2) + (after.1 - before.1)
            });
            let added: u32 = added.sum();
            assert!(added <= waiting, "{added} completions of {waiting} requests");
        }
    }

    fn end(mut self) {
        for qpn in self.qps {
            self.engine(|world| assert!(world.actor(DAEMON).enter_error(qpn)));
            assert_eq!(self.world.state(qpn), state::ERR);
        }
        self.pass(u32::MAX);
        let (before, rest) = self.memory.bytes.split_at(REGION);
        assert!(before.iter().all(|byte| *byte == UNTOUCHED), "bytes before the region changed");
        let after = &rest[REGION..];
        assert!(after.iter().all(|byte| *byte == UNTOUCHED), "bytes behind the region changed");
    }
}

/// A word that is rather small, or all ones, or one bit.
fn word(u: &mut Unstructured<'_>) -> Result<u32> {
    Ok(match u.arbitrary::<u8>()? {
        0xff => u32::MAX,
        0xfe => u.arbitrary()?,
        bit @ 0xd0..0xf0 => 1 << (bit - 0xd0),
        small => small.into(),
    })
}
