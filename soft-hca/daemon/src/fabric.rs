//! The fabric's objects: who has which entry of the arena.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicU8, AtomicU32};

use soft_hca_core::arena::{
    self, Entry, Guard, Heap, Lock, MAX_QPS, Mapping, QPN_ROUNDS, RingPlace,
};
use soft_hca_core::config::LinkOptions;
use soft_hca_core::engine::{self, Actor, DAEMON, Helper, LINK, LocalLink, Quiesce};
use soft_hca_core::errno::{Errno, Result, ensure};
use soft_hca_core::ring;
use soft_hca_core::system;
use soft_hca_core::uapi::verbs::{qp_type, state};
use soft_hca_roce::wire::ip;

use crate::device::Device;
use crate::env::DaemonEnv;
use crate::event_fd::EventFd;
use crate::known::{KnownCq, KnownMr, KnownQp, KnownSrq};
use crate::link;
use crate::process::Processes;
use crate::table::Table;

/// All objects of the fabric.
#[derive(Debug)]
pub(crate) struct Fabric {
    pub arena: Arc<Mapping>,
    /// At least one.
    pub devices: Vec<Arc<Device>>,
    pub processes: Processes,
    pub env: Arc<DaemonEnv>,
    /// The word that programs read to know that they have reached the daemon.
    nonce: Box<u64>,
    rings: HashMap<RingOf, RingPlace>,
    link: LocalLink,
    /// The link to other hosts.
    pub roce: link::Handle,
    heap: Heap,
    channels: Table<()>,
    pub cqs: Table<KnownCq>,
    pub srqs: Table<KnownSrq>,
    pub qps: Table<KnownQp>,
    mrs: Table<KnownMr>,
    windows: usize,
    ahs: Table<()>,
    members: Table<Membership>,
    /// See [`arena::qpn`].
    qpn_round: u32,
    qpn_base: u32,
    last_qp: Option<usize>,
    pds: u32,
    next_pd: u32,
    next_generation: u32,
}

/// A queue pair's membership in a multicast group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Index in the table of queue pairs.
    pub qp: usize,
    /// The group.
    pub gid: [u8; 16],
}

/// How long the end of a datagram queue pair or address handle waits for the link, at most.
const LINK_NS: u64 = 100_000_000;

/// Of an object whose entry has been given back.
pub(crate) const GONE: Errno = Errno::EINVAL.because("the object has been destroyed");

const NO_DESCRIPTOR: Errno = Errno::ENOMEM.because("the daemon can open no further descriptor");

const FULL: Errno = Errno::ENOMEM.because("the fabric has no room for another such object");

/// Makes an entry that was taken, if there was one, as if it had never been used, and moves the mark
/// of how far the table is in use. `ENOMEM` when the table is full.
fn begin(taken: Option<usize>, entries: &[impl Entry], used: Option<&AtomicU32>) -> Result<usize> {
    let index = taken.ok_or(FULL)?;
    entries[index].reset();
    if let Some(used) = used {
        used.fetch_max(index as u32 + 1, AcqRel);
    }
    Ok(index)
}

/// Writes a GID of the arena.
pub(crate) fn store_gid(to: &[AtomicU8; 16], gid: [u8; 16]) {
    to.iter().zip(gid).for_each(|(to, byte)| to.store(byte, Release));
}

impl Fabric {
    /// A new fabric of this device with an arena of its own. The numbers of its queue pairs begin
    /// where `identity` says.
    pub(crate) fn new(device: Arc<Device>, identity: u64) -> io::Result<Self> {
        let arena = Arc::new(Mapping::create()?);
        let ipv4 = device.ports.first().map_or(Ipv4Addr::LOCALHOST, |port| port.gids.ipv4());
        arena.ipv4.store(u32::from_ne_bytes(ipv4.octets()), Release);
        let qpn_base = identity as u32 % MAX_QPS as u32;
        arena.qpn_base.store(qpn_base, Release);
        let env = Arc::new(DaemonEnv::default());
        let fabric = Self {
            arena,
            devices: vec![device],
            processes: Processes::default(),
            nonce: Box::new(system::random() | 1),
            env,
            rings: HashMap::new(),
            link: LocalLink::default(),
            roce: link::Handle::default(),
            heap: Heap::default(),
            channels: Table::new(0..arena::MAX_CHANNELS, 0),
            cqs: Table::new(0..arena::MAX_CQS, 0),
            srqs: Table::new(0..arena::MAX_SRQS, 0),
            qps: Table::new(0..MAX_QPS, 0),
            mrs: Table::new(0..arena::MAX_MRS, 0),
            windows: 0,
            ahs: Table::new(0..arena::MAX_AHS, 0),
            members: Table::new(0..arena::MAX_MEMBERS, 0),
            qpn_round: (identity >> 32) as u32 % QPN_ROUNDS,
            qpn_base,
            last_qp: None,
            pds: 0,
            next_pd: 1,
            next_generation: 1,
        };
        let nonce_addr = std::ptr::from_ref(&*fabric.nonce).expose_provenance() as u64;
        fabric.announce(DAEMON, std::process::id(), nonce_addr, *fabric.nonce);
        Ok(fabric)
    }

    /// Whether a GID, as somebody's address, is one of the fabric's.
    pub(crate) fn has_gid(&self, gid: [u8; 16]) -> bool {
        let mut ports = self.devices.iter().flat_map(|device| &device.ports);
        ports.any(|port| port.gids.is_here(gid))
    }

    /// Whether a GID is that of an address of this machine that is not in the tables.
    pub(crate) fn is_local_without_slot(&self, gid: [u8; 16]) -> bool {
        let mut ports = self.devices.iter().flat_map(|device| &device.ports);
        ports.any(|port| port.gids.is_local_without_slot(gid))
    }

    /// Starts the link to other hosts.
    pub(crate) fn start_link(
        &mut self,
        wanted: &LinkOptions,
    ) -> std::result::Result<link::Thread, link::Error> {
        let nonce_addr = std::ptr::from_ref(&*self.nonce).expose_provenance() as u64;
        self.announce(LINK, std::process::id(), nonce_addr, *self.nonce);
        self.env.remember_process(LINK, None);
        let (arena, env) = (Arc::clone(&self.arena), Arc::clone(&self.env));
        let (handle, thread) = link::start(wanted, &self.devices[0], arena, env)?;
        self.env.set_link(handle.clone());
        for port in &mut Arc::make_mut(&mut self.devices[0]).ports {
            let of_link = handle.addresses().iter().filter_map(|ip| port.gids.netdev_of(*ip));
            port.followed = of_link.map(str::to_owned).collect();
        }
        self.roce = handle;
        Ok(thread)
    }

    /// Tells the link that a queue pair with a peer on another host has come to a state.
    pub(crate) fn tell_link(&self, index: usize, to: u32) {
        let Some(known) = self.qps.get(index).filter(|known| known.is_remote) else { return };
        let port = self.devices.iter().find_map(|device| device.port(known.dest.port_num).ok());
        let sgid = port.map(|port| port.gids.gid(known.dest.sgid_index));
        let address = |gid| Ipv6Addr::from(gid).to_canonical();
        if let Some(sgid) = sgid {
            let path = link::Path {
                traffic_class: known.dest.traffic_class,
                ..link::Path::new(address(sgid), address(known.dest.dgid))
            };
            self.roce.set_state(known.qpn, to, path);
        }
    }

    /// `ERESTART` while the link is still to send datagrams of a queue pair that is to end. The
    /// kernel's rxe has sent them when the doorbell returns, so programs do not wait for them.
    pub(crate) fn await_link(&mut self, qp: usize) -> Result<()> {
        let is_on = !self.roce.addresses().is_empty();
        let is_datagram = |known: &&KnownQp| is_on && known.qp_type == qp_type::UD;
        let Some(known) = self.qps.get(qp).filter(is_datagram) else { return Ok(()) };
        let has_unsent = self.actor().has_unsent(known.qpn);
        let now = system::now_ns();
        let ends_at = known.ends_at_ns.unwrap_or(now.saturating_add(LINK_NS));
        if let Some(known) = self.qps.get_mut(qp) {
            known.ends_at_ns = has_unsent.then_some(ends_at);
        }
        ensure(!has_unsent || now >= ends_at, Errno::ERESTART)
    }

    /// The same for all queue pairs of a protection domain, one of whose address handles is to end.
    pub(crate) fn await_link_of(&mut self, pd: u32) -> Result<()> {
        let of_pd = self.qps.iter().filter(|(_, known)| known.pd == pd);
        let of_pd: Vec<usize> = of_pd.map(|(index, _)| index).collect();
        of_pd.into_iter().try_for_each(|index| self.await_link(index))
    }

    /// Starts the thread that moves memory for programs that cannot reach each other.
    pub(crate) fn start_helper(&self) -> io::Result<Helper> {
        let is_dead = self.env.deaths();
        Helper::start(Arc::clone(&self.arena), DAEMON, Box::new(is_dead))
    }

    /// Whether the daemon can reach a process's memory; if not, the error number.
    pub(crate) fn probe(&self, proc: usize) -> std::result::Result<(), Errno> {
        let probed = self.link.probe(&self.arena, DAEMON, proc);
        probed.map_err(|error| Errno::new(error.raw_os_error().unwrap_or(libc::EPERM)))
    }

    /// The data path, run by the daemon.
    pub(crate) fn actor(&self) -> Actor<'_> {
        Actor { arena: &self.arena, me: DAEMON, env: &*self.env, link: &self.link }
    }

    /// A number for a protection domain; `ENOMEM` if there are `max` of them.
    pub(crate) fn new_pd(&mut self, max: u32) -> Result<u32> {
        ensure(self.pds < max, FULL)?;
        self.pds += 1;
        self.next_pd = self.next_pd.wrapping_add(1).max(1);
        Ok(self.next_pd)
    }

    /// A protection domain has gone.
    pub(crate) fn release_pd(&mut self) {
        self.pds -= 1;
    }

    /// A number that tells one use of an entry from the next.
    pub(crate) fn new_generation(&mut self) -> u32 {
        self.next_generation = self.next_generation.wrapping_add(1).max(1);
        self.next_generation
    }

    /// A key for a memory region or window.
    pub(crate) fn new_key(&mut self, index: usize) -> u32 {
        arena::key(index, self.new_generation())
    }

    /// Takes a lock. `ERESTART` if somebody else has it, who may be stopped: then the command, which
    /// has had no effect yet, is tried again later.
    pub(crate) fn lock<'a>(&self, lock: &'a Lock) -> Result<Guard<'a>> {
        self.actor().lock(lock).ok_or(Errno::ERESTART)
    }

    /// Creates a ring with room for `requested` entries and one more, which stays empty. It is
    /// nobody's yet.
    pub(crate) fn new_ring(&mut self, requested: u32, slot_bytes: u32) -> Result<RingPlace> {
        const TOO_LARGE: Errno = Errno::EINVAL.because("no queue has so many entries");
        const NO_MEMORY: Errno =
            Errno::ENOMEM.because("the fabric has no memory left for the queue");
        let slots = requested.checked_add(1).and_then(u32::checked_next_power_of_two);
        let mask = slots.ok_or(TOO_LARGE)? - 1;
        let log2_slot = slot_bytes.max(64).next_power_of_two().trailing_zeros();
        let bytes = ring::bytes(mask, log2_slot).ok_or(TOO_LARGE)?;
        let offset = self.heap.allocate(bytes).ok_or(NO_MEMORY)?;
        let place = RingPlace::default();
        place.offset.store(offset as u64, Release);
        place.mask.store(mask, Release);
        place.log2_slot.store(log2_slot, Release);
        self.arena.ring(&place).expect("the heap lies in the arena").init_header();
        Ok(place)
    }

    /// Gives an object, which has none, its ring.
    pub(crate) fn place_ring(&mut self, of: RingOf, place: RingPlace) {
        of.entry(&self.arena).copy_from(&place);
        self.rings.insert(of, place);
    }

    /// Gives a completion queue or shared receive queue a ring of another size, with what is unread
    /// in the old one; `EINVAL` if there is no room for that, `ERESTART` as [`Fabric::lock`]. Gives the
    /// new ring's place.
    pub(crate) fn resize_ring(
        &mut self,
        of: RingOf,
        requested: u32,
        slot_bytes: u32,
    ) -> Result<&RingPlace> {
        let place = self.new_ring(requested, slot_bytes)?;
        let moved = self.move_ring(of, &place);
        let unused = if moved.is_ok() { self.rings.insert(of, place) } else { Some(place) };
        if let Some(unused) = unused {
            self.release_ring(&unused);
        }
        moved.and_then(|()| self.rings.get(&of).ok_or(GONE))
    }

    /// Moves an object's unread entries to a new ring and makes that one the object's.
    fn move_ring(&self, of: RingOf, place: &RingPlace) -> Result<()> {
        let lock = match of {
            RingOf::Completions(index) => &self.arena.cqs[index].lock,
            RingOf::Shared(index) => &self.arena.srqs[index].lock,
            RingOf::Send(_) | RingOf::Receive(_) => {
                return Err(Errno::EINVAL.because("a queue pair's queues keep their sizes"));
            }
        };
        let _guard = self.lock(lock)?;
        let old = self.rings.get(&of).and_then(|place| self.arena.ring(place));
        let (old, new) = old.zip(self.arena.ring(place)).ok_or(GONE)?;
        let room = match of {
            RingOf::Completions(_) => engine::cqe_of(new.mask()),
            _ => new.mask(),
        };
        let has_room = old.unread() <= room;
        ensure(
            has_room,
            Errno::EINVAL.because("more entries are in the queue than the new size has room for"),
        )?;
        new.move_from(&old);
        match of {
            RingOf::Shared(index) => self.arena.srqs[index].consumer.store(0, Release),
            RingOf::Completions(index) => {
                self.arena.cqs[index].credits.store(0, Release);
                self.arena.cqs[index].overrun_from.store(0, Release);
            }
            RingOf::Send(_) | RingOf::Receive(_) => {}
        }
        of.entry(&self.arena).copy_from(place);
        Ok(())
    }

    /// Frees a ring's memory.
    pub(crate) fn release_ring(&mut self, place: &RingPlace) {
        let offset = place.offset.load(Acquire) as usize;
        let bytes = ring::bytes(place.mask.load(Acquire), place.log2_slot.load(Acquire));
        let bytes = bytes.expect("the place of a ring");
        self.env.punch_hole(self.arena.file(), offset, bytes);
        self.heap.release(offset, bytes);
    }

    /// Frees an object's ring, if it has one. Its entry no longer names it.
    fn release_ring_of(&mut self, of: RingOf) {
        if let Some(place) = self.rings.remove(&of) {
            self.release_ring(&place);
        }
    }

    // Taking an entry, which is then as if it had never been used: `ENOMEM` when the table is full.

    fn take_channel(&mut self) -> Result<usize> {
        begin(self.channels.take(()), &self.arena.channels, None)
    }

    pub(crate) fn take_cq(&mut self, known: KnownCq) -> Result<usize> {
        begin(self.cqs.take(known), &self.arena.cqs, Some(&self.arena.cqs_used))
    }

    pub(crate) fn take_srq(&mut self, known: KnownSrq) -> Result<usize> {
        begin(self.srqs.take(known), &self.arena.srqs, Some(&self.arena.srqs_used))
    }

    /// The entry has its number from now on; see [`Fabric::qpn`].
    pub(crate) fn take_qp(&mut self, known: KnownQp) -> Result<usize> {
        let index = begin(self.qps.take(known), &self.arena.qps, Some(&self.arena.qps_used))?;
        // A number comes again when all entries have had all of theirs.
        if self.last_qp.replace(index).is_some_and(|last| index <= last) {
            self.qpn_round = (self.qpn_round + 1) % QPN_ROUNDS;
        }
        let qpn = arena::qpn(index, self.qpn_round, self.qpn_base);
        if let Some(known) = self.qps.get_mut(index) {
            known.qpn = qpn;
        }
        Ok(index)
    }

    /// Regions and windows have a limit each.
    pub(crate) fn take_mr(&mut self, known: KnownMr) -> Result<usize> {
        let has_room = if known.is_window {
            self.windows < arena::MAX_WINDOWS
        } else {
            self.mrs.len() - self.windows < arena::MAX_REGIONS
        };
        ensure(has_room, FULL)?;
        let index =
            begin(self.mrs.take_lowest(known), &self.arena.mrs, Some(&self.arena.mrs_used))?;
        self.windows += usize::from(known.is_window);
        Ok(index)
    }

    pub(crate) fn take_ah(&mut self) -> Result<usize> {
        begin(self.ahs.take(()), &self.arena.ahs, None)
    }

    /// A queue pair becomes member of a group; `ENOMEM` if the group has `max` of them.
    pub(crate) fn add_member(&mut self, membership: Membership, max: u32) -> Result<()> {
        const GROUP_FULL: Errno =
            Errno::ENOMEM.because("the group has max_mcast_qp_attach members already");
        let of_group = self.members.iter().filter(|(_, of)| of.gid == membership.gid);
        ensure(of_group.count() < max as usize, GROUP_FULL)?;
        let qpn = self.qpn(membership.qp)?;
        let taken = self.members.take_lowest(membership);
        let index = begin(taken, &self.arena.members, Some(&self.arena.members_used))?;
        let member = &self.arena.members[index];
        store_gid(&member.gid, membership.gid);
        member.live.store(qpn, Release);
        self.roce.join(ip::address(&membership.gid));
        Ok(())
    }

    /// A queue pair's memberships: index and group.
    pub(crate) fn members_of(&self, qp: usize) -> impl Iterator<Item = (usize, [u8; 16])> + '_ {
        self.members.iter().filter(move |(_, of)| of.qp == qp).map(|(index, of)| (index, of.gid))
    }

    /// The queue pair with a number.
    pub(crate) fn qp_of(&self, qpn: u32) -> Option<(usize, &KnownQp)> {
        let index = arena::qp_index(qpn, self.qpn_base)?;
        self.qps.get(index).filter(|qp| qp.qpn == qpn).map(|qp| (index, qp))
    }

    /// The number of a queue pair.
    pub(crate) fn qpn(&self, index: usize) -> Result<u32> {
        self.qps.get(index).map(|qp| qp.qpn).ok_or(GONE)
    }

    // Giving an entry back

    pub(crate) fn release_channel(&mut self, index: usize) {
        self.arena.channels[index].live.store(0, Release);
        self.env.forget_channel(index);
        self.channels.release(index);
    }

    pub(crate) fn release_mr(&mut self, index: usize) {
        let mr = &self.arena.mrs[index];
        mr.live.store(0, Release);
        // A window that goes no longer counts at its region.
        if mr.kind.load(Acquire) != 0 {
            let region = (mr.bound.swap(0, AcqRel) as usize).checked_sub(1);
            if let Some(region) = region.and_then(|region| self.arena.mrs.get(region)) {
                let _ = region.bound.fetch_update(AcqRel, Acquire, |bound| bound.checked_sub(1));
            }
        }
        if self.mrs.release(index).is_some_and(|known| known.is_window) {
            self.windows -= 1;
        }
    }

    pub(crate) fn release_ah(&mut self, index: usize) {
        self.arena.ahs[index].live.store(0, Release);
        self.ahs.release(index);
    }

    pub(crate) fn release_member(&mut self, index: usize) {
        self.arena.members[index].live.store(0, Release);
        if let Some(membership) = self.members.release(index) {
            self.roce.leave(ip::address(&membership.gid));
        }
    }

    // What is in use by the data path: `ERESTART` as `Fabric::lock`.

    pub(crate) fn release_cq(&mut self, index: usize) -> Result<()> {
        let arena = Arc::clone(&self.arena);
        let cq = &arena.cqs[index];
        let guard = self.lock(&cq.lock)?;
        cq.live.store(0, Release);
        cq.ring.offset.store(0, Release);
        let unread = cq.pending_events.swap(0, AcqRel);
        drop(guard);
        self.release_ring_of(RingOf::Completions(index));
        if let Some(channel) = self.cqs.release(index).and_then(|known| known.channel) {
            self.env.take_tokens(channel, unread);
        }
        Ok(())
    }

    pub(crate) fn release_srq(&mut self, index: usize) -> Result<()> {
        let arena = Arc::clone(&self.arena);
        let srq = &arena.srqs[index];
        let guard = self.lock(&srq.lock)?;
        srq.live.store(0, Release);
        srq.ring.offset.store(0, Release);
        drop(guard);
        self.release_ring_of(RingOf::Shared(index));
        self.srqs.release(index);
        Ok(())
    }

    pub(crate) fn release_qp(&mut self, index: usize) -> Result<()> {
        self.await_link(index)?;
        let arena = Arc::clone(&self.arena);
        let qp = &arena.qps[index];
        // Nobody begins anything new with it, however long this takes.
        qp.state.store(state::RESET, Release);
        self.tell_link(index, state::RESET);
        {
            let _guards = (self.lock(&qp.send_lock)?, self.lock(&qp.recv_lock)?);
            qp.live.store(0, Release);
            qp.sq.offset.store(0, Release);
            qp.rq.offset.store(0, Release);
        }
        let memberships: Vec<usize> = self.members_of(index).map(|(member, _)| member).collect();
        memberships.into_iter().for_each(|i| self.release_member(i));
        self.release_ring_of(RingOf::Send(index));
        self.release_ring_of(RingOf::Receive(index));
        self.qps.release(index);
        Ok(())
    }

    /// Creates the event descriptor of a completion channel.
    pub(crate) fn new_channel(&mut self, proc: usize) -> Result<(usize, u32, OwnedFd)> {
        let fd = EventFd::new().map_err(|_| NO_DESCRIPTOR)?;
        let for_client = fd.try_clone().map_err(|_| NO_DESCRIPTOR)?;
        let index = self.take_channel()?;
        let generation = self.new_generation();
        self.env.remember_channel(index, generation, fd);
        let channel = &self.arena.channels[index];
        channel.proc.store(proc as u32, Release);
        channel.live.store(generation, Release);
        Ok((index, generation, for_client))
    }

    /// A process has closed one of its files. True if it is to be taken for ended.
    #[must_use]
    pub(crate) fn close_process(&mut self, index: usize) -> bool {
        let has_ended = self.processes.close(index);
        self.forget_if_gone(index);
        has_ended
    }

    /// A process has ended; it may still have files that are to be closed.
    pub(crate) fn process_ended(&mut self, index: usize) {
        self.processes.ended(index);
        self.forget_if_gone(index);
    }

    fn forget_if_gone(&self, index: usize) {
        if self.processes.pid(index).is_none() {
            self.env.forget_process(index);
        }
    }

    /// Who may still be moving data in or out of a process's memory with a region or window that has
    /// just been made invalid, if somebody is.
    pub(crate) fn quiesce(&self, proc: usize) -> Option<Quiesce> {
        let mut quiesce = self.actor().quiesce(self.qps.taken(), proc);
        (!self.actor().is_quiet(&mut quiesce)).then_some(quiesce)
    }
}

/// Whose a ring is, by the index in the object's table.
///
/// The daemon keeps the places of rings by itself. Those in the arena are for the data path, and a
/// program may have changed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RingOf {
    /// A queue pair's send requests.
    Send(usize),
    /// A queue pair's receives.
    Receive(usize),
    /// A shared receive queue's receives.
    Shared(usize),
    /// A completion queue's completions.
    Completions(usize),
}

impl RingOf {
    fn entry(self, arena: &Mapping) -> &RingPlace {
        match self {
            Self::Send(index) => &arena.qps[index].sq,
            Self::Receive(index) => &arena.qps[index].rq,
            Self::Shared(index) => &arena.srqs[index].ring,
            Self::Completions(index) => &arena.cqs[index].ring,
        }
    }
}

impl Fabric {
    /// Makes a new process known to the data path.
    pub(crate) fn announce(&self, index: usize, pid: u32, nonce_addr: u64, nonce: u64) {
        let proc = &self.arena.procs[index];
        proc.reset();
        proc.pid.store(pid, Release);
        proc.nonce_addr.store(nonce_addr, Release);
        proc.nonce.store(nonce, Release);
        proc.live.store(1, Release);
    }
}

/// What is in use, for tests.
#[cfg(any(test, fuzzing))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InUse {
    pub channels: usize,
    pub cqs: usize,
    pub srqs: usize,
    pub qps: usize,
    pub mrs: usize,
    pub ahs: usize,
    /// Bytes of rings, in whole pages.
    pub ring_bytes: usize,
}

#[cfg(any(test, fuzzing))]
impl Fabric {
    /// Counts what is in use.
    pub(crate) fn in_use(&self) -> InUse {
        InUse {
            channels: self.channels.taken().count(),
            cqs: self.cqs.taken().count(),
            srqs: self.srqs.taken().count(),
            qps: self.qps.taken().count(),
            mrs: self.mrs.taken().count(),
            ahs: self.ahs.taken().count(),
            ring_bytes: arena::HEAP_BYTES - self.heap.free_bytes(),
        }
    }

    /// How many protection domains there are.
    #[cfg(test)]
    pub(crate) fn pds(&self) -> u32 {
        self.pds
    }

    /// That nothing is left of anything, after every file was closed.
    pub(crate) fn check_empty(&self) {
        assert_eq!(self.in_use(), InUse::default());
        assert_eq!((self.members.taken().count(), self.rings.len()), (0, 0));
        assert_eq!((self.pds, self.windows), (0, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fabric(identity: u64) -> Fabric {
        Fabric::new(Arc::new(Device::local("rxe0", 7, &[])), identity).unwrap()
    }

    /// Takes an entry for a queue pair and gives it back; its number.
    fn number(fabric: &mut Fabric) -> u32 {
        let index = fabric.take_qp(KnownQp::default()).unwrap();
        let qpn = fabric.qpn(index).unwrap();
        assert_eq!(fabric.qp_of(qpn).map(|(index, _)| index), Some(index));
        fabric.qps.release(index);
        qpn
    }

    #[test]
    fn numbers_of_queue_pairs_begin_anywhere_and_do_not_come_again_soon() {
        let firsts = [0, 1, 5 << 32, 5 << 32 | 4711].map(|identity| number(&mut fabric(identity)));
        assert!((1..4).all(|i| !firsts[..i].contains(&firsts[i])), "{firsts:?}");
        let mut fabric = fabric(0);
        let numbers: std::collections::HashSet<u32> =
            (0..3 * MAX_QPS).map(|_| number(&mut fabric)).collect();
        assert_eq!(numbers.len(), 3 * MAX_QPS);
    }

    #[test]
    fn the_only_free_entry_has_another_number_each_time() {
        let mut fabric = fabric(0);
        (1..MAX_QPS).for_each(|_| {
            fabric.take_qp(KnownQp::default()).unwrap();
        });
        assert_ne!(number(&mut fabric), number(&mut fabric));
    }
}
