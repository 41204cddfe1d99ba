//! A fabric for tests: an arena with objects, and the program's side of the rings.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
#[cfg(test)]
use std::{
    thread,
    time::{Duration, Instant},
};

use soft_hca_verbs::cause::Cause;

use crate::arena::{self, FIRST_QPN, HEAP_START, Mapping, Qp, RingLocation};
#[cfg(test)]
use crate::engine::deferred::Deferred;
#[cfg(test)]
use crate::engine::request::Requester;
use crate::engine::{
    Actor, Async, EAGER_SLOTS, Env, Identity, InTransit, LINK, LocalCopier, PlainSend, Registered,
    Registry, RemoteDatagram, SendWr, guard, ring_entries,
};
#[cfg(test)]
use crate::engine::{completion, cursor, effects, locking};
use crate::ring;
use crate::system::page_bytes;
use crate::trace::Event;
use crate::trace::cause;
use crate::trace::event::ReceivePosted;
pub(crate) use crate::uapi::rxe::Wr;
use crate::uapi::rxe::{Cqe, Sge, write_sges};
use crate::uapi::verbs::{access, opcode, qp_type, state};

/// The process of these tests, and others that are the same process by another name.
pub(crate) const US: usize = 2;
pub(crate) const THEM: usize = 3;
pub(crate) const DAEMON: usize = 0;

/// The protection domain of everything, unless said otherwise.
pub(crate) const PD: u32 = 7;

/// All rights.
pub(crate) const ALL: u32 = access::LOCAL_WRITE
    | access::REMOTE_WRITE
    | access::REMOTE_READ
    | access::REMOTE_ATOMIC
    | access::FLUSH_GLOBAL
    | access::MW_BIND;

#[derive(Debug, Default)]
pub(crate) struct TestEnv {
    pub now_ns: AtomicU64,
    pub wakes: Mutex<Vec<(u32, u32)>>,
    pub rescheduled: Mutex<Vec<(u32, u64)>>,
    pub raised: Mutex<Vec<Async>>,
    /// Queue pairs at which the link is to look.
    pub link_doorbells: Mutex<Vec<u32>>,
    /// Payloads that were sent to other hosts.
    pub away: Mutex<Vec<Vec<u8>>>,
    /// Not 0: the link has no room.
    pub is_full: AtomicU32,
    /// Traced events, as text.
    pub traced: Mutex<Vec<String>>,
    /// Why work requests wait, fail, or complete with an error, in the order in which that is
    /// traced.
    pub causes: Mutex<Vec<Cause>>,
    /// Receives that were traced, and when if that was told.
    pub receives: Mutex<Vec<(ReceivePosted, Option<u64>)>>,
    /// Sends that were traced: their process and its name for them.
    pub sends: Mutex<Vec<(u32, u64)>>,
    /// The bytes that are on their way.
    pub in_transit: InTransit,
}

impl Env for TestEnv {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Acquire)
    }

    fn wake_channel(&self, channel: u32, generation: u32) {
        self.wakes.lock().unwrap().push((channel, generation));
    }

    fn reschedule(&self, qpn: u32, after_ns: u64) {
        self.rescheduled.lock().unwrap().push((qpn, after_ns));
    }

    fn raise(&self, what: Async) {
        self.raised.lock().unwrap().push(what);
    }

    fn in_transit(&self) -> Option<&InTransit> {
        Some(&self.in_transit)
    }

    fn link_doorbell(&self, qpn: u32) {
        self.link_doorbells.lock().unwrap().push(qpn);
    }

    fn send_datagram(&self, datagram: &RemoteDatagram<'_>) -> bool {
        if self.is_full.load(Acquire) != 0 {
            return false;
        }
        self.away.lock().unwrap().push(datagram.payload.to_vec());
        true
    }

    fn trace(&self, proc: u32, event: &Event, tail: &[u8]) {
        let text = match *event {
            Event::Executed(done) => {
                let name = ({ done.wr_id }, { done.opcode });
                let receive = (done.receive_qpn, done.receive_wr_id);
                let receive = Some(receive).filter(|(qpn, _)| *qpn != 0);
                let (qpn, length, status) = (done.qpn, done.length, done.status);
                Some(format!("request {qpn} {name:?} {length} {status} {receive:?}"))
            }
            Event::Completion(done) => {
                let name = ({ done.qpn }, { done.wr_id }, { done.opcode }, { done.status });
                let (cq, solicited, lost) = (done.cq, done.is_solicited != 0, done.is_lost != 0);
                Some(format!("completion {cq} {name:?} {solicited} {lost}"))
            }
            Event::Raised(raised) => {
                let what = Async::from_words(raised.kind, raised.index).unwrap();
                Some(format!("Async({what:?})"))
            }
            Event::Stalled(_) => None,
            Event::ReceivePosted(posted) => {
                return self.receives.lock().unwrap().push((posted, None));
            }
            Event::SendPosted(posted) => {
                return self.sends.lock().unwrap().push((proc, posted.wr_id));
            }
            // Tests of their own have these.
            _ => return,
        };
        self.traced.lock().unwrap().extend(text);
        self.causes.lock().unwrap().extend(cause::decode(tail));
    }

    fn trace_at(&self, t: u64, proc: u32, event: &Event, tail: &[u8]) {
        match *event {
            Event::ReceivePosted(posted) => self.receives.lock().unwrap().push((posted, Some(t))),
            _ => self.trace(proc, event, tail),
        }
    }
}

impl TestEnv {
    pub(crate) fn take_wakes(&self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.wakes.lock().unwrap())
    }

    pub(crate) fn take_rescheduled(&self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.rescheduled.lock().unwrap())
    }

    pub(crate) fn take_traced(&self) -> Vec<String> {
        std::mem::take(&mut self.traced.lock().unwrap())
    }

    pub(crate) fn take_causes(&self) -> Vec<Cause> {
        std::mem::take(&mut self.causes.lock().unwrap())
    }

    pub(crate) fn take_raised(&self) -> Vec<Async> {
        std::mem::take(&mut self.raised.lock().unwrap())
    }
}

/// Calls of the engine that only the packets of the link, or a test, make.
#[cfg(test)]
impl Actor<'_> {
    /// Adds a completion, wakes the channel if the queue is armed for it.
    pub(crate) fn add_completion(&self, cq: u32, cqe: &Cqe, solicited: bool) {
        let mut deferred = Deferred::default();
        completion::complete_all(self, cq, [(*cqe, solicited)], None, None, &mut deferred);
        effects::carry_out(self, &mut deferred);
    }

    /// Completes the oldest requests of a queue pair that are in flight, `count` at most, and
    /// executes what has waited for them: for who gets the peer's answers. False, and nothing is
    /// done, if somebody else has a lock that the daemon needs for this.
    #[must_use]
    pub(crate) fn complete_in_flight(&self, qpn: u32, count: u32) -> bool {
        let Some(qp) = self.arena.qp(qpn) else { return true };
        let mut deferred = Deferred::default();
        {
            let Some(_guards) = locking::lock_with_cq(self, &qp.send_lock, &qp.send_cq) else {
                return false;
            };
            let is_up = matches!(qp.state.load(Acquire), state::RTS | state::SQD);
            if let Some(ring) = cursor::send_ring(self.arena, qp).filter(|_| is_up) {
                if qp.live.load(Acquire) == qpn {
                    Requester::new(qp, qpn, ring).complete_in_flight(self, count, &mut deferred);
                }
            }
        }
        effects::carry_out(self, &mut deferred);
        self.run_send_queue(qpn);
        true
    }
}

/// The fabric.
pub(crate) struct World {
    pub arena: Arc<Mapping>,
    /// The programs' copier; the daemon's goes by the registry.
    pub copier: LocalCopier,
    daemon_copier: LocalCopier,
    /// The daemon's registry.
    pub registry: Arc<Registry>,
    pub env: TestEnv,
    /// Whether programs' plain sends pass by the send queue, where they may.
    pub sends_at_once: bool,
    /// The word that peers read to know us.
    pub nonce: Box<u64>,
    heap: AtomicUsize,
    qps: AtomicU32,
    cqs: AtomicU32,
    srqs: AtomicU32,
    mrs: AtomicU32,
}

/// Registered memory.
pub(crate) struct Buffer {
    pub bytes: Vec<u8>,
    pub key: u32,
}

impl Buffer {
    pub(crate) fn addr(&mut self) -> u64 {
        self.bytes.as_mut_ptr().expose_provenance() as u64
    }

    /// A part of the buffer as an element.
    pub(crate) fn sge(&mut self, start: usize, length: usize) -> Sge {
        Sge { addr: self.addr() + start as u64, length: length as u32, lkey: self.key }
    }

    pub(crate) fn whole(&mut self) -> Sge {
        self.sge(0, self.bytes.len())
    }
}

/// The base of keys (`Arena::key_base`), as in a new arena.
pub(crate) const KEY_BASE: u32 = 0;

/// Bytes that are different everywhere.
pub(crate) fn pattern(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

impl World {
    pub(crate) fn new() -> Self {
        let registry = Arc::new(Registry::of_all(KEY_BASE));
        let world = Self {
            arena: Arc::new(Mapping::create().unwrap()),
            copier: LocalCopier::default(),
            daemon_copier: LocalCopier::guarded(Arc::clone(&registry)),
            registry,
            env: TestEnv::default(),
            sends_at_once: true,
            nonce: Box::new(0x1234_5678_9abc_def1),
            heap: AtomicUsize::new(HEAP_START),
            qps: AtomicU32::new(0),
            cqs: AtomicU32::new(0),
            srqs: AtomicU32::new(0),
            mrs: AtomicU32::new(0),
        };
        for proc in [US, THEM] {
            world.announce(proc, std::process::id());
        }
        world
    }

    /// One in which programs' plain sends pass by the send queue where they may, or never.
    pub(crate) fn sending(sends_at_once: bool) -> Self {
        Self { sends_at_once, ..Self::new() }
    }

    /// Makes a process known.
    pub(crate) fn announce(&self, proc: usize, pid: u32) {
        let nonce_addr = (&raw const *self.nonce).expose_provenance() as u64;
        self.registry.announce(proc, Identity { pid, nonce_addr, nonce: *self.nonce });
        let entry = &self.arena.procs[proc];
        entry.pid.store(pid, Release);
        entry.nonce_addr.store(nonce_addr, Release);
        entry.nonce.store(*self.nonce, Release);
        entry.live.store(1, Release);
    }

    pub(crate) fn actor(&self, me: usize) -> Actor<'_> {
        let is_daemon = matches!(me, DAEMON | LINK);
        let copier = if is_daemon { &self.daemon_copier } else { &self.copier };
        Actor { arena: &self.arena, me, env: &self.env, copier }
    }

    fn next(counter: &AtomicU32) -> u32 {
        counter.fetch_add(1, AcqRel)
    }

    pub(crate) fn ring(&self, place: &RingLocation, mask: u32, log2_slot: u32) {
        let bytes = ring::bytes(mask, log2_slot).unwrap().next_multiple_of(page_bytes());
        place.offset.store(self.heap.fetch_add(bytes, AcqRel) as u64, Release);
        place.mask.store(mask, Release);
        place.log2_slot.store(log2_slot, Release);
        self.arena.ring(place).unwrap().init_header();
    }

    /// A completion queue with so many entries, one less than a power of two.
    pub(crate) fn cq(&self, entries: u32) -> u32 {
        let index = Self::next(&self.cqs);
        let cq = &self.arena.cqs[index as usize];
        self.ring(&cq.ring, ring_entries(entries), 6);
        self.ring(&cq.eager, EAGER_SLOTS - 1, 6);
        cq.proc.store(US as u32, Release);
        cq.live.store(1, Release);
        index
    }

    /// A completion queue with a channel of its own; channels are numbered as queues are.
    pub(crate) fn cq_with_channel(&self, entries: u32) -> u32 {
        let cq = self.cq(entries);
        self.arena.channels[cq as usize].live.store(100 + cq, Release);
        self.arena.cqs[cq as usize].channel.store(cq + 1, Release);
        cq
    }

    pub(crate) fn srq(&self, mask: u32) -> u32 {
        let index = Self::next(&self.srqs);
        let srq = &self.arena.srqs[index as usize];
        self.ring(&srq.ring, mask, 7);
        srq.max_sge.store(4, Release);
        srq.pd.store(PD, Release);
        srq.live.store(1, Release);
        index
    }

    /// A queue pair in RTS with queues of 63 requests, in a completion queue of its own.
    pub(crate) fn qp(&self, kind: u32, proc: usize) -> u32 {
        let qpn = FIRST_QPN + Self::next(&self.qps);
        let cq = self.cq_with_channel(255);
        self.arena.cqs[cq as usize].proc.store(proc as u32, Release);
        self.arena.cqs[cq as usize].polls_eager.store(guard().into(), Release);
        let qp = &self.arena.qps[(qpn - FIRST_QPN) as usize];
        self.ring(&qp.sq, 63, 9);
        self.ring(&qp.rq, 63, 7);
        for (field, value) in [
            (&qp.qp_type, kind),
            (&qp.state, state::RTS),
            (&qp.proc, proc as u32),
            (&qp.pd, PD),
            (&qp.send_cq, cq),
            (&qp.recv_cq, cq),
            (&qp.max_send_sge, 19),
            (&qp.max_recv_sge, 5),
            (&qp.max_inline, 304),
            (&qp.max_message, 1 << 31),
            (&qp.access, ALL),
            (&qp.path_mtu, 3),
            (&qp.timeout, 14),
            (&qp.retry_cnt, 6),
            (&qp.rnr_retry, 6),
            (&qp.min_rnr_timer, 12),
            (&qp.max_rd_atomic, 4),
            (&qp.max_dest_rd_atomic, 4),
            (&qp.qkey, 0x1111),
            (&qp.pkey, 0xffff),
        ] {
            field.store(value, Release);
        }
        qp.live.store(qpn, Release);
        qpn
    }

    pub(crate) fn entry(&self, qpn: u32) -> &Qp {
        self.arena.qp(qpn).unwrap()
    }

    pub(crate) fn connect(&self, one: u32, other: u32) {
        for (qp, peer, send_psn, receive_psn) in
            [(one, other, 5, 0xff_fffe), (other, one, 0xff_fffe, 5)]
        {
            let qp = self.entry(qp);
            qp.dest_qpn.store(peer, Release);
            qp.sq_psn.store(send_psn, Release);
            qp.rq_psn.store(receive_psn, Release);
        }
    }

    /// Two connected queue pairs, of us and of them.
    pub(crate) fn pair(&self, kind: u32) -> (u32, u32) {
        let (a, b) = (self.qp(kind, US), self.qp(kind, THEM));
        self.connect(a, b);
        (a, b)
    }

    pub(crate) fn rc(&self) -> (u32, u32) {
        self.pair(qp_type::RC)
    }

    pub(crate) fn register(&self, proc: usize, addr: u64, length: u64, access: u32) -> u32 {
        let key = self.forge(proc, addr, length, access);
        self.registry.register(key, Registered { proc, addr, length, access });
        key
    }

    /// An entry of the arena for a region that nobody has registered.
    pub(crate) fn forge(&self, proc: usize, addr: u64, length: u64, access: u32) -> u32 {
        let index = Self::next(&self.mrs);
        self.arena.mrs_used.fetch_max(index + 1, AcqRel);
        let mr = &self.arena.mrs[index as usize];
        let key = arena::key(index as usize, 0x5a, KEY_BASE);
        mr.proc.store(proc as u32, Release);
        mr.pd.store(PD, Release);
        mr.access.store(access, Release);
        mr.addr.store(addr, Release);
        mr.length.store(length, Release);
        mr.iova.store(addr, Release);
        mr.live.store(key, Release);
        key
    }

    pub(crate) fn buffer(&self, proc: usize, bytes: Vec<u8>) -> Buffer {
        let mut buffer = Buffer { bytes, key: 0 };
        let (addr, length) = (buffer.addr(), buffer.bytes.len() as u64);
        buffer.key = self.register(proc, addr, length, ALL);
        buffer
    }

    /// A window, not bound.
    pub(crate) fn window(&self, proc: usize, kind: u32) -> u32 {
        let key = self.register(proc, 0, 0, 0);
        self.arena.mr(key).unwrap().kind.store(kind, Release);
        key
    }

    /// Puts a request into the send ring; no doorbell.
    pub(crate) fn put(&self, qpn: u32, wr: &Wr) {
        let ring = self.arena.ring(&self.entry(qpn).sq).unwrap();
        assert!(!ring.is_full(), "send ring full");
        let at = ring.producer();
        wr.write(&ring.slot(at));
        ring.set_producer(ring.advance(at, 1));
    }

    /// Posts a request as its owner.
    pub(crate) fn send(&self, qpn: u32, wr: &Wr) {
        if !self.sends_at_once || self.send_at_once(qpn, std::slice::from_ref(wr)) == 0 {
            self.put(qpn, wr);
            self.doorbell(qpn);
        }
    }

    /// How many of these requests their owner sends at once.
    pub(crate) fn send_at_once(&self, qpn: u32, wrs: &[Wr]) -> usize {
        let me = self.entry(qpn).proc.load(Acquire) as usize;
        let plain = |wr: &Wr| {
            let sges = match (&wr.inline, &wr.sges[..]) {
                (Some(bytes), []) => {
                    let addr = bytes.as_ptr().expose_provenance() as u64;
                    [Sge { addr, length: bytes.len() as u32, lkey: 0 }, Sge::default()]
                }
                (None, [sge]) => [*sge, Sge::default()],
                (None, [first, second]) => [*first, *second],
                _ => return None,
            };
            let Wr { wr_id, opcode, flags, imm, .. } = *wr;
            let num_sge = wr.sges.len().max(1) as u32;
            PlainSend::new(SendWr { wr_id, opcode, flags, imm, num_sge, sges })
        };
        self.actor(me).send_at_once(qpn, wrs.iter().map_while(plain))
    }

    pub(crate) fn doorbell(&self, qpn: u32) {
        let me = self.entry(qpn).proc.load(Acquire) as usize;
        self.actor(me).doorbell(qpn).unwrap();
    }

    fn put_receive(&self, place: &RingLocation, wr_id: u64, sges: &[Sge]) {
        let ring = self.arena.ring(place).unwrap();
        assert!(!ring.is_full(), "receive ring full");
        let at = ring.producer();
        let slot = ring.slot(at);
        slot.set_u64(0, wr_id);
        slot.set_u32(16, sges.iter().map(|sge| sge.length).sum());
        slot.set_u32(28, sges.len() as u32);
        write_sges(&slot, 40, sges);
        ring.set_producer(ring.advance(at, 1));
    }

    pub(crate) fn receive(&self, qpn: u32, wr_id: u64, sges: &[Sge]) {
        self.put_receive(&self.entry(qpn).rq, wr_id, sges);
    }

    pub(crate) fn receive_shared(&self, srq: u32, wr_id: u64, sges: &[Sge]) {
        self.put_receive(&self.arena.srqs[srq as usize].ring, wr_id, sges);
    }

    /// Payloads for a queue pair do not wait for its owner's poll.
    pub(crate) fn move_at_once(&self, qpn: u32) {
        let cq = self.entry(qpn).recv_cq.load(Acquire);
        set(&self.arena.cqs[cq as usize].polls_eager, 0);
    }

    /// All completions of a queue pair.
    pub(crate) fn poll(&self, qpn: u32) -> Vec<Cqe> {
        self.poll_cq(self.entry(qpn).send_cq.load(Acquire))
    }

    pub(crate) fn poll_cq(&self, cq: u32) -> Vec<Cqe> {
        let ring = self.arena.ring(&self.arena.cqs[cq as usize].ring).unwrap();
        let mut all = Vec::new();
        while ring.unread() > 0 {
            let at = ring.consumer();
            all.push(Cqe::read(&ring.slot(at)));
            ring.set_consumer(ring.advance(at, 1));
        }
        // As the preloaded library does.
        self.actor(self.arena.cqs[cq as usize].proc.load(Acquire) as usize).drain_staged(cq);
        all
    }

    /// Names and statuses of all completions of a queue pair.
    pub(crate) fn statuses(&self, qpn: u32) -> Vec<(u64, u32)> {
        self.poll(qpn).iter().map(|cqe| (cqe.wr_id, cqe.status)).collect()
    }

    pub(crate) fn state(&self, qpn: u32) -> u32 {
        self.entry(qpn).state.load(Acquire)
    }

    /// No lock is held, whatever has happened.
    pub(crate) fn assert_unlocked(&self) {
        for qp in &self.arena.qps[..self.qps.load(Acquire) as usize] {
            assert!(qp.send_lock.try_lock(9).is_some() && qp.recv_lock.try_lock(9).is_some());
        }
        for cq in &self.arena.cqs[..self.cqs.load(Acquire) as usize] {
            assert!(cq.lock.try_lock(9).is_some());
        }
        for srq in &self.arena.srqs[..self.srqs.load(Acquire) as usize] {
            assert!(srq.lock.try_lock(9).is_some());
        }
        assert!(self.arena.procs.iter().all(|proc| proc.atomics.try_lock(9).is_some()));
    }
}

/// Waits for what another thread does; fails if that takes longer than on any machine.
#[cfg(test)]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "not in a minute: {what}");
        thread::yield_now();
    }
}

/// Sets a field of the arena.
pub(crate) fn set(field: &AtomicU32, value: u32) {
    field.store(value, Release);
}

/// Has process `me` execute a send of all of `ours`, filled with `pattern(1, ..)`, an RDMA write, a
/// read and an atomic, the last three at a peer's address where the first has gone to. Checks what
/// this side sees; gives the bytes that the peer then has.
pub(crate) fn every_kind(
    world: &World,
    me: usize,
    a: u32,
    ours: &mut Buffer,
    addr: u64,
    key: u32,
) -> Vec<u8> {
    let mut expected = ours.bytes.clone();
    world.put(a, &Wr::new(1, opcode::SEND).sge(ours.whole()));
    world.put(a, &Wr::new(2, opcode::RDMA_WRITE).inline(b"abcd").remote(addr + 10, key));
    let (start, add) = (ours.sge(0, 20), Wr::new(4, opcode::ATOMIC_FETCH_AND_ADD));
    world.put(a, &Wr::new(3, opcode::RDMA_READ).sge(start).remote(addr + 4, key));
    world.put(a, &add.sge(ours.sge(40, 8)).atomic(addr, key, 1, 0));
    world.actor(me).run_send_queue(a);
    assert_eq!(world.statuses(a), [(1, 0), (2, 0), (3, 0), (4, 0)]);
    expected[10..14].copy_from_slice(b"abcd");
    assert_eq!(ours.bytes[..20], expected[4..24]);
    assert_eq!(ours.bytes[40..48], expected[..8]);
    expected[0] += 1;
    expected
}

/// A connected pair, with a buffer on either side.
pub(super) struct Case {
    pub world: World,
    pub a: u32,
    pub b: u32,
    pub ours: Buffer,
    pub theirs: Buffer,
}

impl Case {
    pub(super) fn new() -> Self {
        Self::of(World::new())
    }

    pub(super) fn of(world: World) -> Self {
        let (a, b) = world.rc();
        let ours = world.buffer(US, pattern(1, 64));
        let theirs = world.buffer(THEM, vec![0; 64]);
        Self { world, a, b, ours, theirs }
    }
}
