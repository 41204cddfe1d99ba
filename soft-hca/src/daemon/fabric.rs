//! The fabric's objects: who has which entry of the arena.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use crate::arena::{self, Guard, Heap, Lock, Mapping, RingPlace};
use crate::daemon::env::DaemonEnv;
use crate::daemon::event_fd::EventFd;
use crate::daemon::process::Processes;
use crate::daemon::slots::Slots;
use crate::device::Addresses;
use crate::engine::{Actor, LocalLink};
use crate::errno::{Errno, Result};
use crate::ring;

/// The daemon's index in the table of processes.
pub(crate) const DAEMON: usize = 0;

/// What a queue pair has beside its entry in the arena.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QpPrivate {
    /// `ib_uverbs_qp_dest` as it was set.
    pub dest: [u8; 32],
    pub pkey_index: u16,
    pub port_num: u8,
    pub sq_sig_all: u8,
    pub max_inline: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
}

/// All objects of the fabric.
#[derive(Debug)]
pub(crate) struct Fabric {
    pub arena: Mapping,
    pub arena_fd: OwnedFd,
    pub addresses: Addresses,
    pub node_guid: u64,
    pub processes: Processes,
    pub env: DaemonEnv,
    pub qp_private: HashMap<usize, QpPrivate>,
    link: LocalLink,
    heap: Heap,
    channels: Slots,
    cqs: Slots,
    srqs: Slots,
    qps: Slots,
    mrs: Slots,
    ahs: Slots,
    members: Slots,
    next_pd: u32,
    next_generation: u32,
}

/// Reads a GID of the arena.
pub(crate) fn load_gid(gid: &[AtomicU8; 16]) -> [u8; 16] {
    std::array::from_fn(|i| gid[i].load(Acquire))
}

/// Writes a GID of the arena.
pub(crate) fn store_gid(to: &[AtomicU8; 16], gid: [u8; 16]) {
    to.iter().zip(gid).for_each(|(to, byte)| to.store(byte, Release));
}

impl Fabric {
    /// A new fabric with an arena of its own.
    pub(crate) fn new(addresses: Addresses, node_guid: u64) -> io::Result<Self> {
        let (arena_fd, arena) = Mapping::create()?;
        arena.ipv4.store(u32::from_ne_bytes(addresses.ipv4().octets()), Release);
        Ok(Self {
            arena,
            arena_fd,
            addresses,
            node_guid,
            processes: Processes::default(),
            env: DaemonEnv::default(),
            qp_private: HashMap::new(),
            link: LocalLink::default(),
            heap: Heap::default(),
            channels: Slots::new(arena::MAX_CHANNELS),
            cqs: Slots::new(arena::MAX_CQS),
            srqs: Slots::new(arena::MAX_SRQS),
            qps: Slots::new(arena::MAX_QPS),
            mrs: Slots::new(arena::MAX_MRS),
            ahs: Slots::new(arena::MAX_AHS),
            members: Slots::new(arena::MAX_MEMBERS),
            next_pd: 1,
            next_generation: 1,
        })
    }

    /// The data path, run by the daemon.
    pub(crate) fn actor(&self) -> Actor<'_> {
        Actor { arena: &self.arena, me: DAEMON, env: &self.env, link: &self.link }
    }

    /// A number for a protection domain.
    pub(crate) fn new_pd(&mut self) -> u32 {
        self.next_pd = self.next_pd.wrapping_add(1).max(1);
        self.next_pd
    }

    /// A number that tells one use of an entry from the next.
    pub(crate) fn new_generation(&mut self) -> u32 {
        self.next_generation = self.next_generation.wrapping_add(1).max(1);
        self.next_generation
    }

    /// A key for a memory region or window.
    pub(crate) fn new_key(&mut self, index: usize) -> u32 {
        let variant = self.new_generation() & 0xff;
        (index as u32 + 1) << 8 | variant
    }

    /// Takes a lock; see [`Actor::lock`].
    pub(crate) fn lock<'a>(&self, lock: &'a Lock) -> Guard<'a> {
        self.actor().lock(lock)
    }

    /// Creates a ring with room for `requested` entries and one more, which stays empty.
    pub(crate) fn new_ring(
        &mut self,
        place: &RingPlace,
        requested: u32,
        slot_bytes: u32,
    ) -> Result<()> {
        let slots = requested.checked_add(1).and_then(u32::checked_next_power_of_two);
        let mask = slots.ok_or(Errno::EINVAL)? - 1;
        let log2_slot = slot_bytes.max(64).next_power_of_two().trailing_zeros();
        let bytes = ring::bytes(mask, log2_slot).ok_or(Errno::EINVAL)?;
        let offset = self.heap.allocate(bytes).ok_or(Errno::ENOMEM)?;
        place.offset.store(offset as u64, Release);
        place.mask.store(mask, Release);
        place.log2_slot.store(log2_slot, Release);
        self.arena.ring(place).expect("the heap lies in the arena").init_header();
        Ok(())
    }

    /// Frees a ring's memory.
    pub(crate) fn release_ring(&mut self, place: &PlacedRing) {
        if place.offset != 0 {
            self.env.punch_hole(&self.arena_fd, place.offset, place.bytes);
            self.heap.release(place.offset, place.bytes);
        }
    }

    // Taking an entry: `ENOMEM` when the table is full.

    pub(crate) fn take_channel(&mut self) -> Result<usize> {
        self.channels.take().ok_or(Errno::ENOMEM)
    }

    pub(crate) fn take_cq(&mut self) -> Result<usize> {
        let index = self.cqs.take().ok_or(Errno::ENOMEM)?;
        self.arena.cqs_used.fetch_max(index as u32 + 1, AcqRel);
        Ok(index)
    }

    pub(crate) fn take_srq(&mut self) -> Result<usize> {
        let index = self.srqs.take().ok_or(Errno::ENOMEM)?;
        self.arena.srqs_used.fetch_max(index as u32 + 1, AcqRel);
        Ok(index)
    }

    pub(crate) fn take_qp(&mut self) -> Result<usize> {
        let index = self.qps.take().ok_or(Errno::ENOMEM)?;
        self.arena.qps_used.fetch_max(index as u32 + 1, AcqRel);
        Ok(index)
    }

    pub(crate) fn take_mr(&mut self) -> Result<usize> {
        self.mrs.take_lowest().ok_or(Errno::ENOMEM)
    }

    pub(crate) fn take_ah(&mut self) -> Result<usize> {
        self.ahs.take().ok_or(Errno::ENOMEM)
    }

    pub(crate) fn take_member(&mut self) -> Result<usize> {
        self.members.take_lowest().ok_or(Errno::ENOMEM)
    }

    /// Indices of the memberships in use.
    pub(crate) fn members(&self) -> impl Iterator<Item = usize> + '_ {
        self.members.taken()
    }

    /// Indices of the queue pairs in use.
    pub(crate) fn qps(&self) -> impl Iterator<Item = usize> + '_ {
        self.qps.taken()
    }

    // Giving an entry back

    /// Frees the index of a queue pair that never came to life.
    pub(crate) fn give_back_qp(&mut self, index: usize) {
        self.qps.release(index);
    }

    pub(crate) fn release_channel(&mut self, index: usize) {
        self.arena.channels[index].live.store(0, Release);
        self.env.forget_channel(index);
        self.channels.release(index);
    }

    pub(crate) fn release_mr(&mut self, index: usize) {
        let mr = &self.arena.mrs[index];
        mr.live.store(0, Release);
        // A window that goes no longer counts at its region.
        if mr.kind.load(Acquire) != 0
            && let Some(region) = (mr.bound.swap(0, AcqRel) as usize).checked_sub(1)
            && let Some(region) = self.arena.mrs.get(region)
        {
            let _ = region.bound.fetch_update(AcqRel, Acquire, |bound| bound.checked_sub(1));
        }
        self.mrs.release(index);
    }

    pub(crate) fn release_ah(&mut self, index: usize) {
        self.arena.ahs[index].live.store(0, Release);
        self.ahs.release(index);
    }

    pub(crate) fn release_member(&mut self, index: usize) {
        self.arena.members[index].live.store(0, Release);
        self.members.release(index);
    }

    pub(crate) fn release_cq(&mut self, index: usize) {
        let cq = &self.arena.cqs[index];
        let guard = self.lock(&cq.lock);
        cq.live.store(0, Release);
        let place = PlacedRing::of(&cq.ring);
        let unread = cq.pending_events.swap(0, AcqRel);
        let channel = (cq.channel.load(Acquire) as usize).checked_sub(1);
        drop(guard);
        if let Some(channel) = channel {
            self.env.take_tokens(channel, unread);
        }
        self.release_ring(&place);
        self.cqs.release(index);
    }

    pub(crate) fn release_srq(&mut self, index: usize) {
        let srq = &self.arena.srqs[index];
        let guard = self.lock(&srq.lock);
        srq.live.store(0, Release);
        let place = PlacedRing::of(&srq.ring);
        drop(guard);
        self.release_ring(&place);
        self.srqs.release(index);
    }

    pub(crate) fn release_qp(&mut self, index: usize) {
        let qp = &self.arena.qps[index];
        // One lock after the other, never both: see the order of locks in the arena's layout.
        let qpn = {
            let _guard = self.lock(&qp.send_lock);
            qp.state.store(0, Release);
            qp.live.swap(0, AcqRel)
        };
        let guard = self.lock(&qp.recv_lock);
        let (send, receive) = (PlacedRing::of(&qp.sq), PlacedRing::of(&qp.rq));
        drop(guard);
        let memberships: Vec<usize> = self
            .members
            .taken()
            .filter(|&i| self.arena.members[i].live.load(Acquire) == qpn)
            .collect();
        memberships.into_iter().for_each(|i| self.release_member(i));
        self.qp_private.remove(&index);
        self.release_ring(&send);
        self.release_ring(&receive);
        self.qps.release(index);
    }

    /// Creates the event descriptor of a completion channel.
    pub(crate) fn new_channel(&mut self, proc: usize) -> Result<(usize, u32, OwnedFd)> {
        let fd = EventFd::new().map_err(|_| Errno::ENOMEM)?;
        let index = self.take_channel()?;
        let generation = self.new_generation();
        let for_client = fd.try_clone().map_err(|_| Errno::ENOMEM)?;
        self.env.remember_channel(index, generation, fd);
        let channel = &self.arena.channels[index];
        channel.proc.store(proc as u32, Release);
        channel.live.store(generation, Release);
        Ok((index, generation, for_client))
    }

    /// Cleans up behind a process that has ended: its locks, and what it owed others, wakes and
    /// the execution of their send queues.
    pub(crate) fn bury(&self, dead: usize) {
        self.arena.procs[dead].live.store(0, Release);
        self.arena.release_locks_of(dead);
        self.actor().wake_for(dead, self.cqs.taken());
        self.actor().run_again(self.qps.taken());
    }

    /// A process has closed one of its files.
    pub(crate) fn close_process(&mut self, index: usize) {
        self.processes.close(index);
        self.forget_if_gone(index);
    }

    /// A process has ended; it may still have files that are to be closed.
    pub(crate) fn process_ended(&mut self, index: usize) {
        self.processes.ended(index);
        self.forget_if_gone(index);
    }

    fn forget_if_gone(&self, index: usize) {
        if self.processes.pid(index).is_none() {
            self.env.forget_process(index);
            // Without a descriptor that tells of its end it was not buried.
            self.arena.release_locks_of(index);
        }
    }

    /// Waits until nobody moves data in or out of a process's memory with a region or window that
    /// has just been made invalid.
    pub(crate) fn quiesce(&self, proc: usize) {
        self.actor().quiesce(self.qps.taken(), proc);
    }
}

/// Where a ring lies, in numbers of our own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedRing {
    pub offset: usize,
    pub bytes: usize,
}

impl PlacedRing {
    /// Takes the place over: the entry has no ring any more.
    pub(crate) fn of(place: &RingPlace) -> Self {
        let mask = place.mask.load(Acquire);
        let bytes = ring::bytes(mask, place.log2_slot.load(Acquire)).unwrap_or(0);
        Self { offset: place.offset.swap(0, AcqRel) as usize, bytes }
    }
}

impl Fabric {
    /// Makes a new process known to the data path.
    pub(crate) fn announce(&self, index: usize, pid: u32, hello: &crate::rpc::Hello) {
        let proc = &self.arena.procs[index];
        proc.pid.store(pid, Release);
        proc.nonce_addr.store(hello.nonce_addr, Release);
        proc.nonce.store(hello.nonce, Release);
        proc.live.store(1, Release);
    }
}
