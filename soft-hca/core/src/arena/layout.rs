//! The layout of the arena: fixed tables, bounce buffers, then the heap of rings.
//!
//! The fabric's daemon creates and destroys every entry. Programs read entries, and change those
//! fields that the data path moves: queue indices, locks, arm flags, waits. Every field is
//! an atomic, as [all access](crate::arena#access-to-shared-memory) demands.
//!
//! An entry is in use while its `live` is not 0. An index that was read elsewhere (a queue pair's
//! completion queue, say) may be stale: check `live`, and after taking a lock check again.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use crate::arena::clocks::{Clocked, Clocks};
use crate::arena::doorbell;
use crate::arena::entry::entry;
use crate::arena::lock::{Lock, LockApart};
use crate::arena::operations::Operations;
use crate::arena::places::Places;
use crate::arena::port_counters::Counters;
use crate::arena::port_lease::{PORT_LEASES, PortLease};
use crate::arena::qp::{MAX_QPS, Qp};
use crate::arena::recording;
use crate::arena::ring_location::RingLocation;
use crate::arena::scope::Scope;

/// First word of an arena: "softhca" and the layout's version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"softhca\x10");

/// Processes that have opened a device.
pub const MAX_PROCS: usize = 1024;
/// Completion channels.
pub const MAX_CHANNELS: usize = 8192;
/// Completion queues.
pub const MAX_CQS: usize = 16384;
/// Shared receive queues.
pub const MAX_SRQS: usize = 4096;
/// Memory regions, as rxe has.
pub const MAX_REGIONS: usize = 524_287;
/// Memory windows, as rxe has.
pub const MAX_WINDOWS: usize = 524_287;
/// Memory regions and windows, which share a table.
pub const MAX_MRS: usize = MAX_REGIONS + MAX_WINDOWS;
/// Address handles, as rxe has.
pub const MAX_AHS: usize = 32_767;
/// Memberships of queue pairs in multicast groups.
pub const MAX_MEMBERS: usize = 4096;

/// Copies through the arena at a time. One bit each fits [`Proc::requested`].
pub const MAX_BOUNCE_SLOTS: usize = 64;
/// Stretches of memory that a slot's request names at most.
pub const MAX_BOUNCE_SEGMENTS: usize = 64;
/// Bytes that a slot moves at a time.
pub const BOUNCE_BUFFER_BYTES: usize = 256 << 10;

/// Queue pair numbers begin here, as rxe's do.
pub const FIRST_QPN: u32 = 0x11;

/// Numbers that the entry of a queue pair has in turn: as many as 24 bits allow.
pub const QPN_ROUNDS: u32 = ((1 << 24) - FIRST_QPN) / MAX_QPS as u32;

/// The number of the queue pair with an index, in this round and with [`Arena::qpn_base`].
pub fn qpn(index: usize, round: u32, base: u32) -> u32 {
    FIRST_QPN
        + round % QPN_ROUNDS * MAX_QPS as u32
        + (index as u32).wrapping_add(base) % MAX_QPS as u32
}

/// The index of the queue pair with a number, if it can be one's.
pub fn qp_index(qpn: u32, base: u32) -> Option<usize> {
    Some(qpn.checked_sub(FIRST_QPN)?.wrapping_sub(base) as usize % MAX_QPS)
}

/// The part of a region's or window's key that its user may choose (IBTA 10.6).
pub const KEY_VARIANT: u32 = 0xff;

/// The number of values of [`Arena::key_base`], chosen so that no key is 0 (no key) or all ones.
pub const KEY_BASES: u32 = (1 << 24) - 1 - MAX_MRS as u32;

/// The key of the region or window with an index, with [`Arena::key_base`].
pub fn key(index: usize, variant: u32, base: u32) -> u32 {
    (index as u32 + 1 + base % KEY_BASES) << 8 | variant & KEY_VARIANT
}

/// The index of the region or window with a key; `None` for a key below those of
/// [`Arena::key_base`].
pub fn key_index(key: u32, base: u32) -> Option<usize> {
    let number = (key >> 8).checked_sub(base)?;
    number.checked_sub(1).map(|index| index as usize)
}

/// Bytes of address space for rings. The memory is sparse: only what is touched exists.
pub const HEAP_BYTES: usize = 16 << 30;
/// Bytes of the smallest pages that a system may have. Rings begin on one of the system's own pages, see
/// [`page_bytes`](crate::system::page_bytes), so on such a boundary at least.
pub const MIN_PAGE: usize = 4 << 10;
/// Bytes of the largest. The parts of the arena begin on such a boundary.
const MAX_PAGE: usize = 64 << 10;

entry! {
    /// A process. Index 0 is the daemon itself.
    #[repr(C, align(128))]
    pub struct Proc {
        /// 1 while the process lives.
        pub live: AtomicU32,
        /// Process id, as the daemon sees it.
        pub pid: AtomicU32,
        /// Address of a word in the process that holds `nonce`; a peer reads it to know that it has
        /// reached the right process.
        pub nonce_addr: AtomicU64,
        /// A random number, not 0.
        pub nonce: AtomicU64,
        /// 1: the system does not let others reach its memory, or it theirs. It then has a helper of
        /// its own, which copies what is asked for; for all other processes the daemon's does.
        pub closed: AtomicU32,
        /// Not 0: the process wants to know of peers' operations at its memory ([`Arena::operations`]).
        pub wants_operations: AtomicU32,
        /// Taken to execute an atomic operation on its memory.
        pub atomics: Lock,
        /// A futex that the helper sleeps on; changes with every request.
        pub doorbell: AtomicU32,
        /// Which bounces have a request for the helper, a bit each.
        pub requested: AtomicU64,
    }
}

/// A request to a helper, and the place through which the bytes go. See `engine::bounce`.
#[repr(C, align(128))]
pub struct BounceSlot {
    /// Taken for a whole copy.
    pub lock: Lock,
    /// The request's state (a futex).
    pub phase: AtomicU32,
    /// The process whose helper is requested, an index in the table of processes.
    pub helper: AtomicU32,
    /// The process whose memory it is, an index in the table of processes.
    pub proc: AtomicU32,
    /// 0: the memory is read, 1: it is written.
    pub writes: AtomicU32,
    /// Its result.
    pub result: AtomicU32,
    /// Segments in the list.
    pub count: AtomicU32,
    /// Bytes from the bounce buffer's start.
    pub offset: AtomicU32,
    /// The stretches of memory.
    pub segments: [BounceSegment; MAX_BOUNCE_SEGMENTS],
}

/// A stretch of memory in a request to a helper.
#[repr(C)]
pub struct BounceSegment {
    /// First address in the process.
    pub addr: AtomicU64,
    /// Bytes.
    pub length: AtomicU64,
    /// Index + 1 of the memory region that it is said to lie in, or 0.
    pub region: AtomicU32,
}

entry! {
    /// A completion channel: an event file descriptor in semaphore mode, which the daemon hands out.
    #[repr(C, align(64))]
    pub struct Channel {
        /// 0, or the generation of this entry; changes with every new channel in it.
        pub live: AtomicU32,
        /// Index of the owner in the table of processes.
        pub proc: AtomicU32,
        /// Odd while the owner takes a token and the event that belongs to it; goes up with each.
        pub reads: AtomicU32,
        /// `CLOCK_MONOTONIC` nanoseconds since which a thread of the owner waits for an event, 0 for none:
        /// for `soft-hca ls --why`.
        pub waits_since: AtomicU64,
    }
}

entry! {
    /// A completion queue.
    #[repr(C, align(128))]
    pub struct Cq {
        // The cache line of threads that add completions
        /// Taken to add a completion, to resize and to destroy.
        pub lock: Lock,
        /// 0, or the generation of this entry.
        pub live: AtomicU32,
        /// Channel's index + 1, or 0.
        pub channel: AtomicU32,
        /// In the two low bits 0 not armed, 1 for solicited completions, 2 for any; above them a number
        /// that changes each time the queue is armed.
        pub armed: AtomicU32,
        /// Completion events that are signalled and not read.
        pub pending_events: AtomicU32,
        /// Index + 1 of the process that has signalled an event and not yet given the channel its
        /// token, or 0.
        pub token_due_from: AtomicU32,
        /// Completions lost because the queue was full. The first is an asynchronous event.
        pub overflows: AtomicU32,
        /// Entries that are free for sure. Only when they are used up does one look again how far
        /// the program is, which changes that word all the time.
        pub credits: AtomicU32,
        /// Those that are reserved for completions that are about to be added. See
        /// `engine::credit`.
        pub reserved: AtomicU32,
        /// The consumer's index + 1 at which requests have waited for a credit in vain, or 0.
        pub overrun_from: AtomicU32,
        /// Slots of `eager` that are free for sure; as `credits`.
        pub eager_free: AtomicU32,
        /// How many completions it holds if that is to be exactly what was asked for; 0 for as many as the
        /// ring has room for. See `engine::strict`.
        pub exact: AtomicU32,
        /// 1 while it is in [`Arena::staged_cqs`]; the holder of `lock` changes both.
        pub is_listed: AtomicU32,
        /// The program's name for it; comes back in events.
        pub user_handle: AtomicU64,

        // A cache line that is only read while messages are on their way
        /// The ring of completions, of twice the queue's size: see `engine::credit`.
        pub ring: RingLocation,
        /// The ring of payloads that wait for the owner's poll.
        pub eager: RingLocation,
        /// The generation if the threads that poll the queue move what is in `eager`, else 0. See
        /// `engine::eager`.
        pub polls_eager: AtomicU32,
        /// Owner, an index in the table of processes.
        pub proc: AtomicU32,

        // The cache line of threads that poll
        /// Taken to move payloads out of `eager`.
        pub eager_lock: LockApart,
        /// Since when a thread has polled it and found nothing, `CLOCK_MONOTONIC` nanoseconds; 0 if it has not done
        /// so for long.
        pub in_vain_since: AtomicU64,
        /// When it was last seen to.
        pub in_vain_until: AtomicU64,
    }
}

entry! {
    /// A shared receive queue.
    #[repr(C, align(128))]
    pub struct Srq {
        /// Taken to take a receive, to resize and to destroy.
        pub lock: Lock,
        /// 0, or the generation of this entry.
        pub live: AtomicU32,
        /// Owner, an index in the table of processes.
        pub proc: AtomicU32,
        /// Protection domain, a number that is unique in the fabric.
        pub pd: AtomicU32,
        /// Receives that are left when the limit event is raised; 0 not armed.
        pub limit: AtomicU32,
        /// 1: the limit event is to be raised.
        pub limit_reached: AtomicU32,
        /// SGEs of a receive, at most.
        pub max_sge: AtomicU32,
        /// The next receive work request to be consumed.
        pub consumer: AtomicU32,
        /// The next receive to be traced.
        pub seen_receives: AtomicU32,
        /// The ring of receives.
        pub ring: RingLocation,
    }
}

entry! {
    /// A memory region or window. [`key`] makes its key.
    #[repr(C, align(64))]
    pub struct Mr {
        /// 0, or the key.
        pub live: AtomicU32,
        /// Owner, an index in the table of processes.
        pub proc: AtomicU32,
        /// Protection domain, a number that is unique in the fabric.
        pub pd: AtomicU32,
        /// Access that is allowed (`ibv_access_flags`). 0 also in a window that is not bound.
        pub access: AtomicU32,
        /// 0 region, 1 window of type 1, 2 window of type 2.
        pub kind: AtomicU32,
        /// Window of type 2: the queue pair it is bound to, else 0.
        pub bound_qpn: AtomicU32,
        /// Window: index + 1 of the region it is bound to, or 0. Region: number of windows bound.
        pub bound: AtomicU32,
        /// First address in the owner's memory.
        pub addr: AtomicU64,
        /// Bytes.
        pub length: AtomicU64,
        /// The address by which work requests name the first byte (0 if zero-based).
        pub iova: AtomicU64,
    }
}

entry! {
    /// An address handle.
    #[repr(C, align(64))]
    pub struct Ah {
        /// 0, or the number (index + 1).
        pub live: AtomicU32,
        /// Owner, an index in the table of processes.
        pub proc: AtomicU32,
        /// Protection domain, a number that is unique in the fabric.
        pub pd: AtomicU32,
        /// MTU of the port when the handle was created (`ib_mtu`): no datagram is longer.
        pub mtu: AtomicU32,
        /// Traffic class.
        pub traffic_class: AtomicU32,
        /// Hop limit.
        pub hop_limit: AtomicU32,
        /// Flow label.
        pub flow_label: AtomicU32,
        /// LID of the port that it begins at, with the path's bits; 0 on Ethernet.
        pub slid: AtomicU32,
        /// The path's bits of the destination's LID: as many as its port's LMC says.
        pub dlid_path_bits: AtomicU32,
        /// As [`Qp::packet_octets`].
        pub packet_octets: AtomicU32,
        /// Number of the port that its datagrams leave by.
        pub port: AtomicU32,
        /// Index of the source GID.
        pub sgid_index: AtomicU32,
        /// Source GID, as the index meant when the handle was created.
        pub sgid: [AtomicU8; 16],
        /// Destination GID.
        pub dgid: [AtomicU8; 16],
        /// The way there, 0 within the fabric. See `engine::Route`.
        pub route: AtomicU32,
    }
}

entry! {
    /// A queue pair's membership in a multicast group.
    #[repr(C, align(64))]
    pub struct Member {
        /// 0, or the queue pair number.
        pub live: AtomicU32,
        /// GID of the group.
        pub gid: [AtomicU8; 16],
    }
}

/// The arena's beginning. The bounce buffers follow it at [`BOUNCE_BUFFERS_START`], the heap at
/// [`HEAP_START`].
#[repr(C, align(4096))]
pub struct Arena {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// How far the table of members is in use (an upper bound of the indices in use).
    pub members_used: AtomicU32,
    /// The same for the table of memory regions.
    pub mrs_used: AtomicU32,
    /// The same for queue pairs, completion queues and shared receive queues.
    pub qps_used: AtomicU32,
    /// See [`Arena::qps_used`].
    pub cqs_used: AtomicU32,
    /// See [`Arena::qps_used`].
    pub srqs_used: AtomicU32,
    /// See [`Arena::qps_used`].
    pub ahs_used: AtomicU32,
    /// The number of the recording, 0 while nobody records, and whether a program wants to know what others do. See
    /// `engine::traced`.
    pub trace_generation: AtomicU32,
    /// Bytes that each process may trace before they are read.
    pub trace_limit: AtomicU64,
    /// The events that are traced, a [`Scope`].
    pub trace_scope: AtomicU32,
    /// Where the numbers of queue pairs begin, in entries: the fabric's own choice, so that it is not
    /// taken for one that has ended.
    pub qpn_base: AtomicU32,
    /// The base of the keys of regions and windows, which is added to the index of an entry. Each
    /// fabric has its own random one, so that nobody guesses a key.
    pub key_base: AtomicU32,
    /// The machine's first IPv4 address, for headers of datagrams, in network byte order.
    pub ipv4: AtomicU32,
    /// Not 0: the link's thread sleeps, and wakes if somebody writes to its event descriptor.
    pub link_sleeps: AtomicU32,
    /// A count of what is put off and of what of it has happened: see `engine::moments`.
    pub moments: AtomicU32,
    /// The time by the clock of strict programs, 0 if that goes as the system's does: see `engine::moments`.
    pub computed_ns: AtomicU64,
    /// Leases of the port to other hosts.
    pub leases: [PortLease; PORT_LEASES],
    /// Packets that the port to other hosts has sent, received and dropped.
    pub port_counters: Counters,
    /// A bit for each queue pair at whose send queue the link is to look, by index.
    pub link_doorbells: [AtomicU64; MAX_QPS / 64],
    /// A bit for each completion queue for which payloads may be staged, by index. See `engine::listed`.
    pub staged_cqs: [AtomicU64; MAX_CQS / 64],
    /// Processes.
    pub procs: [Proc; MAX_PROCS],
    /// Completion channels.
    pub channels: [Channel; MAX_CHANNELS],
    /// Completion queues.
    pub cqs: [Cq; MAX_CQS],
    /// Shared receive queues.
    pub srqs: [Srq; MAX_SRQS],
    /// Queue pairs.
    pub qps: [Qp; MAX_QPS],
    /// Memory regions and windows.
    pub mrs: [Mr; MAX_MRS],
    /// Address handles.
    pub ahs: [Ah; MAX_AHS],
    /// Memberships in multicast groups.
    pub members: [Member; MAX_MEMBERS],
    /// Copies through the arena.
    pub bounce_slots: [BounceSlot; MAX_BOUNCE_SLOTS],
    /// Operations of peers at each process's memory.
    pub operations: [Operations; MAX_PROCS],
    /// Where each process posts such operations.
    pub places: [Places; MAX_PROCS],
    /// The knowledge of each process at its last moments.
    pub clocks: [Clocks; MAX_PROCS],
    /// The processes that have such clocks.
    pub clocked: Clocked<{ MAX_PROCS / 64 }>,
}

/// Bytes from the arena's start to the bounce buffers.
pub const BOUNCE_BUFFERS_START: usize = size_of::<Arena>().next_multiple_of(MAX_PAGE);
/// Bytes from the arena's start to the heap.
pub const HEAP_START: usize = BOUNCE_BUFFERS_START + MAX_BOUNCE_SLOTS * BOUNCE_BUFFER_BYTES;
/// Bytes of the whole arena.
pub const ARENA_BYTES: usize = HEAP_START + HEAP_BYTES;

impl Arena {
    /// Whether somebody records, or a program [wants to know](Operations) what others do.
    #[inline]
    pub fn is_traced(&self) -> bool {
        recording::is_any(&self.trace_generation)
    }

    /// Whether a program wants to know what others do.
    pub fn is_watched(&self) -> bool {
        recording::is_watched(&self.trace_generation)
    }

    /// A program wants to know what others do, from now on.
    pub fn watch(&self) {
        recording::watch(&self.trace_generation);
    }

    /// The number of the recording, 0 if there is none.
    #[inline]
    pub fn recording(&self) -> u32 {
        recording::number(&self.trace_generation)
    }

    /// Begins a recording of so many bytes.
    pub fn begin_recording(&self, number: u32, limit: u64, scope: Scope) {
        let words = (&self.trace_generation, &self.trace_limit, &self.trace_scope);
        recording::begin(words, (number, limit, scope as u32));
    }

    /// The recording is over.
    pub fn end_recording(&self) {
        recording::end(&self.trace_generation);
    }

    /// The queue pair with this number, if there is one.
    pub fn qp(&self, qpn: u32) -> Option<&Qp> {
        let index = qp_index(qpn, self.qpn_base.load(Relaxed))?;
        Some(&self.qps[index]).filter(|qp| qp.live.load(Acquire) == qpn)
    }

    /// Rings a queue pair's doorbell for the link; whether its thread is to be woken.
    pub fn link_doorbell(&self, qpn: u32) -> bool {
        match qp_index(qpn, self.qpn_base.load(Relaxed)) {
            Some(index) => doorbell::set(
                &self.link_doorbells[index / 64],
                1 << (index % 64),
                &self.link_sleeps,
            ),
            None => doorbell::is_to_wake(&self.link_sleeps),
        }
    }

    /// The link's thread is about to sleep; whether it may. `has_work` tells whether there is
    /// something to do beside what doorbells are set for.
    pub fn link_may_sleep(&self, has_work: bool) -> bool {
        doorbell::may_sleep(&self.link_sleeps, || self.has_link_doorbells() || has_work)
    }

    /// The link's thread sleeps no more.
    pub fn link_is_awake(&self) {
        doorbell::wake_up(&self.link_sleeps);
    }

    /// Whether a doorbell of the link is set.
    pub fn has_link_doorbells(&self) -> bool {
        let used = (self.qps_used.load(Acquire) as usize).min(MAX_QPS);
        self.link_doorbells[..used.div_ceil(64)].iter().any(doorbell::is_set)
    }

    /// Takes the numbers of all queue pairs whose doorbell is set.
    pub fn take_link_doorbells(&self) -> Vec<u32> {
        let used = (self.qps_used.load(Acquire) as usize).min(MAX_QPS);
        let mut taken = Vec::new();
        for (word, bits) in self.link_doorbells[..used.div_ceil(64)].iter().enumerate() {
            let mut bits = doorbell::take(bits);
            while bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                taken.push(self.qps[index].live.load(Acquire));
                bits &= bits - 1;
            }
        }
        taken
    }

    /// The region or window with this key, if there is one.
    #[inline]
    pub fn mr(&self, key: u32) -> Option<&Mr> {
        self.mrs.get(self.key_index(key)?).filter(|mr| mr.live.load(Acquire) == key)
    }

    /// The index of the region or window with a key; `None` for a key below the first one.
    #[inline]
    pub fn key_index(&self, key: u32) -> Option<usize> {
        key_index(key, self.key_base.load(Relaxed))
    }

    /// Releases every lock that a dead process has left behind. Only the daemon calls this.
    pub fn release_locks_of(&self, dead: usize) {
        let used = |mark: &AtomicU32| mark.load(Acquire) as usize;
        for qp in self.qps.iter().take(used(&self.qps_used)) {
            qp.send_lock.release_of(dead);
            qp.recv_lock.release_of(dead);
        }
        for cq in self.cqs.iter().take(used(&self.cqs_used)) {
            cq.lock.release_of(dead);
            cq.eager_lock.release_of(dead);
        }
        for srq in self.srqs.iter().take(used(&self.srqs_used)) {
            srq.lock.release_of(dead);
        }
        for slot in &self.bounce_slots {
            slot.lock.release_of(dead);
        }
        for lease in &self.leases {
            lease.lock.release_of(dead);
            lease.in_hand.release_of(dead);
        }
        for proc in &self.procs {
            proc.atomics.release_of(dead);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_to_their_entries() {
        for base in [0, 1, 777, MAX_QPS as u32 - 1] {
            for round in [0, 1, QPN_ROUNDS - 1] {
                for index in [0, 1, MAX_QPS - 1] {
                    let qpn = qpn(index, round, base);
                    assert!((FIRST_QPN..1 << 24).contains(&qpn));
                    assert_eq!(qp_index(qpn, base), Some(index), "{base} {round}");
                }
            }
        }
        assert_eq!((qp_index(0, 5), qp_index(1, 0)), (None, None));
    }
}
