//! The fabric's objects: who has which entry of the arena.

mod counters;
mod entries;
mod lease_table;
mod notices;
mod numbers;
mod places;
mod port_leases;
mod remote;
mod removal;
mod rings;

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Release;

use soft_hca_core::arena::{self, Entry, Guard, Lock, MAX_QPS, Mapping};
use soft_hca_core::engine::{
    Actor, DAEMON, Helper, Identity, LocalCopier, Quiesce, Registry, Retired,
};
use soft_hca_core::errno::{Errno, Refusal, Result};
use soft_hca_core::system;

use crate::counters::{PortCounts, PortOf};
use crate::device::{Device, Port};
use crate::env::DaemonEnv;
use crate::link;
use crate::objects::{AhObject, CqObject, MrObject, QpObject, SrqObject};
use crate::process::Processes;
use crate::table::Table;

use lease_table::PortLeases;
use numbers::{FULL, Generations, Keys, Pds, QpNumbers};
use places::Rings;

pub(crate) use places::RingOf;
pub(crate) use removal::REMOVED;

/// All objects of the fabric.
#[derive(Debug)]
pub(crate) struct Fabric {
    pub arena: Arc<Mapping>,
    /// At least one. A device that is removed keeps its place, without its ports.
    pub devices: Vec<Arc<Device>>,
    /// The ports of devices that are removed, by their devices' places.
    absent: BTreeMap<usize, Vec<Port>>,
    pub processes: Processes,
    pub env: Arc<DaemonEnv>,
    /// The word that programs read to know that they have reached the daemon.
    nonce: Box<u64>,
    rings: Rings,
    /// The regions and processes that copies on behalf of programs may use.
    pub registry: Arc<Registry>,
    copier: LocalCopier,
    /// The link to other hosts.
    pub roce: link::Handle,
    channels: Table<()>,
    pub cqs: Table<CqObject>,
    pub srqs: Table<SrqObject>,
    pub qps: Table<QpObject>,
    mrs: Table<MrObject>,
    windows: usize,
    pub ahs: Table<AhObject>,
    members: Table<Membership>,
    /// Counts that ports keep of queue pairs that have left them.
    port_counts: BTreeMap<PortOf, PortCounts>,
    qp_numbers: QpNumbers,
    keys: Keys,
    /// The source of random numbers for keys, so that nobody guesses them.
    random: fn() -> u64,
    leases: PortLeases,
    pds: Pds,
    generations: Generations,
}

/// A queue pair's membership in a multicast group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Index in the table of queue pairs.
    pub qp: usize,
    /// The group.
    pub gid: [u8; 16],
}

/// Of an object whose entry has been given back.
pub(crate) const GONE: Errno = Errno::EINVAL.because(Refusal::Destroyed);

/// Writes a GID of the arena.
pub(crate) fn store_gid(to: &[AtomicU8; 16], gid: [u8; 16]) {
    to.iter().zip(gid).for_each(|(to, byte)| to.store(byte, Release));
}

impl Fabric {
    /// A new fabric of these devices with an arena of its own. `random` chooses the numbers of its
    /// queue pairs and its keys.
    pub(crate) fn new(devices: Vec<Arc<Device>>, random: fn() -> u64) -> io::Result<Self> {
        let arena = Arc::new(Mapping::create()?);
        let first = devices.iter().find_map(|device| device.ports.first());
        let ipv4 = first.map_or(Ipv4Addr::LOCALHOST, |port| port.gids.ipv4());
        arena.ipv4.store(u32::from_ne_bytes(ipv4.octets()), Release);
        let (qp_numbers, keys) = (QpNumbers::new(random()), Keys::new(random()));
        arena.qpn_base.store(qp_numbers.base, Release);
        arena.key_base.store(keys.base, Release);
        let env = Arc::new(DaemonEnv::default());
        let registry = Arc::new(Registry::of_all(keys.base));
        let fabric = Self {
            arena,
            devices,
            absent: BTreeMap::new(),
            processes: Processes::default(),
            nonce: Box::new(system::random() | 1),
            env,
            rings: Rings::default(),
            copier: LocalCopier::guarded(Arc::clone(&registry)),
            registry,
            roce: link::Handle::default(),
            channels: Table::new(0..arena::MAX_CHANNELS, 0),
            cqs: Table::new(0..arena::MAX_CQS, 0),
            srqs: Table::new(0..arena::MAX_SRQS, 0),
            qps: Table::new(0..MAX_QPS, 0),
            mrs: Table::new(0..arena::MAX_MRS, 0),
            windows: 0,
            ahs: Table::new(0..arena::MAX_AHS, 0),
            members: Table::new(0..arena::MAX_MEMBERS, 0),
            port_counts: BTreeMap::new(),
            qp_numbers,
            keys,
            random,
            leases: PortLeases::default(),
            pds: Pds::default(),
            generations: Generations::default(),
        };
        let nonce_addr = std::ptr::from_ref(&*fabric.nonce).expose_provenance() as u64;
        fabric.announce(DAEMON, std::process::id(), nonce_addr, *fabric.nonce);
        Ok(fabric)
    }

    /// The ports of all devices.
    pub(crate) fn ports(&self) -> impl Iterator<Item = &Port> {
        self.devices.iter().flat_map(|device| &device.ports)
    }

    /// The ports that a device had when it was removed.
    fn ports_of_removed(&self, device: usize) -> Option<&Vec<Port>> {
        self.absent.get(&device)
    }

    /// Whether a GID, as somebody's address, is one of the fabric's.
    pub(crate) fn has_gid(&self, gid: [u8; 16]) -> bool {
        self.ports().any(|port| port.gids.is_here(gid))
    }

    /// Whether a GID is that of an address of this machine that is not in the tables.
    pub(crate) fn is_local_without_slot(&self, gid: [u8; 16]) -> bool {
        self.ports().any(|port| port.gids.is_local_without_slot(gid))
    }

    /// Starts the thread that moves memory for programs that cannot reach each other.
    pub(crate) fn start_helper(&self) -> io::Result<Helper> {
        let is_dead = self.env.deaths();
        let registry = Arc::clone(&self.registry);
        Helper::start(Arc::clone(&self.arena), DAEMON, registry, Box::new(is_dead))
    }

    /// Whether the daemon can reach a process's memory; if not, the error number.
    pub(crate) fn probe(&self, proc: usize) -> std::result::Result<(), Errno> {
        let probed = self.copier.probe(&self.arena, DAEMON, proc);
        probed.map_err(|error| Errno::new(error.raw_os_error().unwrap_or(libc::EPERM)))
    }

    /// The data path, run by the daemon.
    pub(crate) fn actor(&self) -> Actor<'_> {
        Actor { arena: &self.arena, me: DAEMON, env: &*self.env, copier: &self.copier }
    }

    /// A number for a protection domain; `ENOMEM` if there are `max` of them.
    pub(crate) fn new_pd(&mut self, max: u32) -> Result<u32> {
        self.pds.take(max)
    }

    /// A protection domain has gone.
    pub(crate) fn release_pd(&mut self) {
        self.pds.release();
    }

    /// A number that tells one use of an entry from the next.
    pub(crate) fn new_generation(&mut self) -> u32 {
        self.generations.take()
    }

    /// A key for a memory region or window.
    pub(crate) fn new_key(&mut self, index: usize) -> u32 {
        let key = self.keys.take(index, (self.random)());
        if let Some(object) = self.mrs.get_mut(index) {
            object.key = key;
        }
        key
    }

    /// Takes a lock. `ERESTART` if somebody else has it, who may be stopped: then the command,
    /// which has had no effect yet, is tried again later.
    pub(crate) fn lock<'a>(&self, lock: &'a Lock) -> Result<Guard<'a>> {
        self.actor().lock(lock).ok_or(Errno::ERESTART)
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

    fn forget_if_gone(&mut self, index: usize) {
        if self.processes.pid(index).is_none() {
            self.env.forget_process(index);
            self.registry.forget(index);
            self.leases.take_back(&self.arena, index);
        }
    }

    /// Processes that may still be moving data in or out of a process's memory with a region or window that
    /// has just been made invalid, if somebody is.
    pub(crate) fn quiesce(&self, proc: usize, retired: Option<Retired>) -> Option<Quiesce> {
        let mut quiesce = self.actor().quiesce(self.qps.taken(), proc, retired);
        (!self.actor().is_quiet(&mut quiesce)).then_some(quiesce)
    }
}

impl Fabric {
    /// Makes a new process known to the data path.
    pub(crate) fn announce(&self, index: usize, pid: u32, nonce_addr: u64, nonce: u64) {
        self.registry.announce(index, Identity { pid, nonce_addr, nonce });
        let proc = &self.arena.procs[index];
        proc.reset();
        proc.pid.store(pid, Release);
        proc.nonce_addr.store(nonce_addr, Release);
        proc.nonce.store(nonce, Release);
        proc.live.store(1, Release);
    }
}

/// Counts of entries in use, for tests.
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
            ring_bytes: arena::HEAP_BYTES - self.rings.free_bytes(),
        }
    }

    /// How many protection domains there are.
    #[cfg(test)]
    pub(crate) fn pds(&self) -> u32 {
        self.pds.count()
    }

    /// Checks that nothing is left, after every file was closed.
    pub(crate) fn check_empty(&self) {
        assert_eq!(self.in_use(), InUse::default());
        assert_eq!((self.members.taken().count(), self.rings.len()), (0, 0));
        assert_eq!((self.pds.count(), self.windows), (0, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fabric(random: fn() -> u64) -> Fabric {
        Fabric::new(vec![Arc::new(Device::local("rxe0", 7, &[]))], random).unwrap()
    }

    /// Takes an entry for a queue pair and gives it back; its number.
    fn number(fabric: &mut Fabric) -> u32 {
        let index = fabric.take_qp(QpObject::default(), 1).unwrap();
        let qpn = fabric.qpn(index).unwrap();
        assert_eq!(fabric.qp_of(qpn).map(|(index, _)| index), Some(index));
        fabric.qps.release(index);
        qpn
    }

    #[test]
    fn numbers_of_queue_pairs_begin_anywhere_and_do_not_come_again_soon() {
        let starts: [fn() -> u64; 4] = [|| 0, || 1, || 5 << 32, || 5 << 32 | 4711];
        let firsts = starts.map(|start| number(&mut fabric(start)));
        assert!((1..4).all(|i| !firsts[..i].contains(&firsts[i])), "{firsts:?}");
        let mut fabric = fabric(|| 0);
        let numbers: std::collections::HashSet<u32> =
            (0..3 * MAX_QPS).map(|_| number(&mut fabric)).collect();
        assert_eq!(numbers.len(), 3 * MAX_QPS);
    }

    /// The key of an entry that is taken for a region and given back.
    fn key(fabric: &mut Fabric) -> u32 {
        let index = fabric.take_mr(MrObject { is_window: false, key: 0 }).unwrap();
        let key = fabric.new_key(index);
        assert_eq!(fabric.arena.key_index(key), Some(index));
        let mr = &fabric.arena.mrs[index];
        assert!(fabric.arena.mr(key).is_none());
        mr.live.store(key, Release);
        let neighbours = [1, 0x100, 0x80_0000].map(|one| key ^ one);
        assert!(neighbours.iter().all(|other| fabric.arena.mr(*other).is_none()));
        assert!(fabric.arena.mr(key).is_some_and(|found| std::ptr::eq(found, mr)));
        fabric.release_mr(index);
        key
    }

    #[test]
    fn keys_begin_anywhere_and_none_comes_again_at_once() {
        let mut firsts: Vec<u32> = (0..64).map(|_| key(&mut fabric(system::random))).collect();
        firsts.sort_unstable();
        firsts.dedup_by_key(|key| *key >> 8);
        assert!(firsts.len() > 60, "{firsts:x?}");
        let variants: std::collections::HashSet<u32> =
            firsts.iter().map(|key| key & arena::KEY_VARIANT).collect();
        assert!(variants.len() > 32, "{variants:x?}");
        let mut fabric = fabric(system::random);
        let mut last = 0;
        for _ in 0..1000 {
            let key = key(&mut fabric);
            assert_ne!(key, last);
            last = key;
        }
    }

    #[test]
    fn no_key_is_none_or_all_ones() {
        for base in [0, arena::KEY_BASES - 1, arena::KEY_BASES, u32::MAX] {
            let keys = [0, arena::MAX_MRS - 1].map(|index| arena::key(index, u32::MAX, base));
            assert!(keys[0] > arena::KEY_VARIANT && keys[0] < keys[1], "{base:#x} {keys:x?}");
            assert!(keys[1] < u32::MAX, "{base:#x} {keys:x?}");
        }
    }

    #[test]
    fn the_only_free_entry_has_another_number_each_time() {
        let mut fabric = fabric(|| 0);
        (1..MAX_QPS).for_each(|_| {
            fabric.take_qp(QpObject::default(), 1).unwrap();
        });
        assert_ne!(number(&mut fabric), number(&mut fabric));
    }
}
