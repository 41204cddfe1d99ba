//! A queue pair in the arena.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use soft_hca_roce::transport::timers::AckTimer;
use soft_hca_roce::wire::bth::pkeys_match;
use soft_hca_verbs::{Choice, Choices, Failure};

use crate::arena::entry::entry;
use crate::arena::lock::Lock;
use crate::arena::ring_location::RingLocation;
use crate::arena::traffic::{Events, Traffic};

/// Queue pairs.
pub const MAX_QPS: usize = 16384;

entry! {
    /// A queue pair.
    ///
    /// `send_lock` is held while work requests are executed, `recv_lock` while a receive work
    /// request is consumed from the receive queue. Order: own `send_lock`, then the peer's
    /// `recv_lock` (or its shared receive queue's lock), then a completion queue's lock. Never two
    /// of a kind.
    #[repr(C, align(128))]
    pub struct Qp {
        // The cache line that nobody writes while messages are on their way, and nothing holds them up
        /// 0, or the queue pair number.
        pub live: AtomicU32,
        /// `ibv_qp_type`: RC 2, UC 3, UD 4, XRC send 9, XRC receive 10.
        pub qp_type: AtomicU32,
        /// `ibv_qp_state`: RESET 0, INIT 1, RTR 2, RTS 3, SQD 4, SQE 5, ERR 6.
        pub state: AtomicU32,
        /// Owner, an index in the table of processes.
        pub proc: AtomicU32,
        /// Protection domain, a number that is unique in the fabric.
        pub pd: AtomicU32,
        /// Index of the completion queue for sends.
        pub send_cq: AtomicU32,
        /// Index of the completion queue for receives.
        pub recv_cq: AtomicU32,
        /// Shared receive queue's index + 1, or 0.
        pub srq: AtomicU32,
        /// 1: every send completes visibly.
        pub sq_sig_all: AtomicU32,
        /// The cause that holds up the request at the head: in the low byte 0 nothing, 1 the peer has no receive
        /// (RNR), 2 the peer does not answer, 3 a completion queue is full; above it how many times
        /// the daemon has tried.
        pub wait: AtomicU32,
        /// The ring of send work requests.
        pub sq: RingLocation,
        /// SGEs of a send, at most.
        pub max_send_sge: AtomicU32,
        /// SGEs of a receive, at most.
        pub max_recv_sge: AtomicU32,

        // The cache line of who executes send work requests
        /// Taken to execute send work requests.
        pub send_lock: Lock,
        /// The oldest send work request that is not completed.
        pub sq_consumer: AtomicU32,
        /// The first packet sequence number that we send, 24 bits.
        pub sq_psn: AtomicU32,
        /// Send work requests from the oldest on that are executed and wait for the peer's answer; the
        /// next one to be executed comes after them. Always 0 with a peer of the same fabric, whose
        /// requests are executed and completed in one step.
        pub sq_in_flight: AtomicU32,
        /// Packets that its requests have sent, and answers that have come.
        pub sent: Traffic,

        // The cache line of who consumes receive work requests
        /// Taken to take a receive work request.
        pub recv_lock: Lock,
        /// The next receive work request to be consumed.
        pub rq_consumer: AtomicU32,
        /// Receives from there on that are posted for sure; as with
        /// [`Cq::credits`](super::Cq::credits).
        pub rq_posted: AtomicU32,
        /// The first packet sequence number that we expect, 24 bits.
        pub rq_psn: AtomicU32,
        /// The requests that have come, and what has answered them.
        pub received: Traffic,

        /// The ring of receive work requests; unused with a shared receive queue.
        pub rq: RingLocation,
        /// 1: a receive work request of the shared queue was consumed for a message of which more
        /// packets are to come. If the queue pair fails before, nobody else knows of it.
        pub consumed: AtomicU32,
        /// The program's name for that receive.
        pub consumed_wr_id: AtomicU64,
        /// 1: one of its completions was lost, and its program was told of that.
        pub completion_lost: AtomicU32,
        /// Bytes of inline data, at most.
        pub max_inline: AtomicU32,

        // Attributes, as `ibv_modify_qp` set them
        /// Remote access that is allowed (`ibv_access_flags`).
        pub access: AtomicU32,
        /// Queue key (UD).
        pub qkey: AtomicU32,
        /// Number of the peer's queue pair.
        pub dest_qpn: AtomicU32,
        /// The P_Key at its index of its port's table; 0 before INIT.
        pub pkey: AtomicU32,
        /// `ibv_mtu` of the path.
        pub path_mtu: AtomicU32,
        /// Where its path begins: eight times the index of the device, and the number of the port; 0
        /// before there is a port.
        pub port: AtomicU32,
        /// Octets that every packet has around its payload, but for the headers of some: LRH and GRH
        /// or Ethernet, IP and UDP; BTH and ICRC. The daemon knows them by the path.
        pub packet_octets: AtomicU32,
        /// Bytes that one message may have (`max_msg_sz` of its port).
        pub max_message: AtomicU32,
        /// The adapter's numbers for failures, [`VendorErrors`](soft_hca_verbs::VendorErrors).
        pub vendor_errors: [AtomicU32; Failure::ALL.len()],
        /// Ack timeout, 4.096 us * 2^timeout; 0 for ever.
        pub timeout: AtomicU32,
        /// The adapter's floor for it, see [`AckTimer`].
        pub timeout_floor: AtomicU32,
        /// Retries after a timeout.
        pub retry_cnt: AtomicU32,
        /// Retries when the peer has no receive; 7 for ever.
        pub rnr_retry: AtomicU32,
        /// Code of the time that a peer waits when we have no receive.
        pub min_rnr_timer: AtomicU32,
        /// RDMA reads and atomics outstanding, as requester.
        pub max_rd_atomic: AtomicU32,
        /// The same as responder.
        pub max_dest_rd_atomic: AtomicU32,
        /// 1: raise SQ_DRAINED once the queue is idle in SQD.
        pub sqd_notify: AtomicU32,
        /// GID of the peer (address vector), 16 bytes.
        pub dgid: [AtomicU8; 16],
        /// The way to the peer, 0 within the fabric. See `engine::Route`.
        pub route: AtomicU32,

        // The request at the head of the send queue
        /// Not 0: its datagram has reached the group's members of this fabric, and is still to be sent
        /// to other hosts.
        pub sq_group_reached: AtomicU32,
        // While something holds it up
        /// `CLOCK_MONOTONIC` nanoseconds at which the wait ends in an error; `u64::MAX` never.
        pub wait_deadline_ns: AtomicU64,
        /// While a completion queue is full: up to where its program had polled at the last look.
        pub wait_polled: AtomicU32,

        // Of the port to other hosts
        /// The ring in whose slots its snapshot lies, see `port::snapshot`.
        pub snapshot: RingLocation,
        /// Bytes of the snapshot, 0 for none.
        pub snapshot_bytes: AtomicU32,
        /// Another one after each change.
        pub snapshot_version: AtomicU64,

        /// Errors, be they put right or not.
        pub events: Events,

        // Of requests that are put off, see `engine::strict` and `engine::delayed_writes`
        /// The seed of choices if the program is run strictly; otherwise 0.
        pub strict_seed: AtomicU64,
        /// How many of its completions have failed, if the program is run strictly.
        pub failed_completions: AtomicU32,
        /// The number of the request at the head, of all that were there, if the program is run strictly; otherwise how
        /// many choices have been made.
        pub put_off_choices: AtomicU32,
        /// The time until which the request at the head is put off; 0 if it is not. That is `Env::put_off_now_ns` of a
        /// strict program's, otherwise `CLOCK_MONOTONIC` without the lowest bit: see `engine::delayed_writes`.
        pub put_off_until_ns: AtomicU64,

        /// If the program is run strictly, by the kind of choice: the `NumberSpan` of those things about which it is made, 0 for
        /// none.
        pub strict_choices: [AtomicU64; Choice::ALL.len()],

        // Traced
        /// The next send work request to be traced.
        pub seen_sends: AtomicU32,
        /// The next receive to be traced.
        pub seen_receives: AtomicU32,
    }
}

impl Qp {
    /// Its program is run strictly: these choices are made about it, by a seed that is not 0.
    pub fn make_strict(&self, seed: u64, choices: &Choices) {
        for choice in Choice::ALL {
            let bits = choices.of(choice).map_or(0, u64::from);
            self.strict_choices[choice as usize].store(bits, Release);
        }
        self.strict_seed.store(seed, Release);
    }

    /// How long it waits for acknowledgements.
    pub fn ack_timer(&self) -> AckTimer {
        let byte = |field: &AtomicU32| field.load(Acquire) as u8;
        AckTimer { timeout: byte(&self.timeout), floor: byte(&self.timeout_floor) }
    }

    /// Whether packets with a P_Key are for it; others it drops.
    #[inline]
    pub fn takes(&self, pkey: u32) -> bool {
        pkeys_match(self.pkey.load(Acquire) as u16, pkey as u16)
    }
}
