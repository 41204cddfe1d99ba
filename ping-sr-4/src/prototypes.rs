//! Constants and the two structures that every part of the program uses.

use std::ptr;
use std::time::Instant;

use byteorder::{ByteOrder, NetworkEndian};
use common::memory::CArray;
use common::utilities::{Reporting, Usage};
use libc::pollfd;
use rdma_sys::{
    ibv_comp_channel, ibv_cq, ibv_mr, ibv_pd, ibv_qp, ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_wc,
    rdma_cm_id, rdma_event_channel,
};

/// Depth of the send queue, in work requests.
pub const OUR_SQ_DEPTH: u32 = 16;
/// Depth of the receive queue, in work requests.
pub const OUR_RQ_DEPTH: u32 = 16;

/// Port number if there is no `-p`.
pub const OUR_DEFAULT_PORT: u64 = 12321;

/// Connection requests that may wait for the listener.
pub const OUR_BACKLOG: i32 = 3;

/// Number of iterations if there is no `-c`.
pub const OUR_DEFAULT_LIMIT: u64 = 500000;

/// Bytes in one message if there is no `-s`.
pub const OUR_DEFAULT_DATA_SIZE: u64 = 8;

/// At most so many buffers for user data.
pub const OUR_MAX_USER_DATA_BUFFERS: usize = 2;

/// At most so many work requests of each kind.
pub const OUR_MAX_WORK_REQUESTS: usize = 1;

/// Flag: compare what comes back with what was sent.
pub const VERIFY: u32 = 0x01;
/// Flag: trace the major steps.
pub const TRACING: u32 = 0x02;
/// Flag: trace every message, too.
pub const VERBOSE_TRACING: u32 = 0x04;
/// Flag: print statistics at the end.
pub const PRINT_STATS: u32 = 0x08;

/// Where a function goes on after a step: the labels of C's `goto`. What stands at one undoes some
/// steps, and all lower ones follow.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
#[allow(missing_docs, reason = "the names are C's")]
pub enum Label {
    Out1,
    Out2,
    Out3,
    Out4,
    Out5,
    Out6,
}

/// Options of the command line.
#[derive(Clone, Debug)]
pub struct OurOptions {
    /// Host name or address of the server (`-a`).
    pub server_name: String,
    /// `server_port_number` as text, for `getaddrinfo`.
    pub server_port: String,
    /// Last component of the program's path; begins every line of output.
    pub message: String,
    /// Port of the server (`-p`).
    pub server_port_number: u64,
    /// Messages to send (`-c`).
    pub limit: u64,
    /// Bytes in one message (`-s`).
    pub data_size: u64,
    /// Depth of the send queue, in work requests.
    pub send_queue_depth: u32,
    /// Depth of the receive queue, in work requests.
    pub recv_queue_depth: u32,
    /// Scatter-gather elements that one send may have.
    pub max_send_sge: u32,
    /// Scatter-gather elements that one receive may have.
    pub max_recv_sge: u32,
    /// [`VERIFY`], [`TRACING`], [`VERBOSE_TRACING`], [`PRINT_STATS`].
    pub flags: u32,
}

impl Reporting for OurOptions {
    fn message(&self) -> &str {
        &self.message
    }

    fn tracing(&self) -> bool {
        self.flags & TRACING != 0
    }
}

/// Contents of the private data in the client's connect request to the server. On the wire both
/// numbers are 64-bit in network byte order.
#[derive(Clone, Copy, Debug, Default)]
pub struct OurConnectInfo {
    /// Messages that the client is going to send.
    pub remote_limit: u64,
    /// Bytes in each of them.
    pub remote_data_size: u64,
}

impl OurConnectInfo {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    /// The bytes on the wire.
    pub fn to_private_data(self) -> [u8; Self::LEN] {
        let mut private_data = [0; Self::LEN];
        NetworkEndian::write_u64(&mut private_data[..8], self.remote_limit);
        NetworkEndian::write_u64(&mut private_data[8..], self.remote_data_size);
        private_data
    }

    /// The numbers that the bytes on the wire hold.
    pub fn from_private_data(private_data: &[u8; Self::LEN]) -> Self {
        Self {
            remote_limit: NetworkEndian::read_u64(&private_data[..8]),
            remote_data_size: NetworkEndian::read_u64(&private_data[8..]),
        }
    }
}

/// Index into `poll_fds` of the event channel's entry.
pub const CM_EVENT_FD: usize = 0;
/// Index into `poll_fds` of the completion channel's entry.
pub const COMPLETE_FD: usize = 1;
/// Entries of `poll_fds`.
pub const NUM_POLL_FD: usize = 2;

/// Everything about one connection, be it the client's, the listener's or the agent's.
///
/// The pointers belong to the libraries. Each is valid from the function that sets it to the one
/// that undoes that: `our_setup_...` to `our_unsetup_...`, `our_create_...` to `our_destroy_...`.
pub struct OurControl {
    // General information
    /// When the first message was sent or received.
    pub start_time: Instant,
    /// When the last one was.
    pub stop_time: Instant,
    /// Processor time used at `start_time`.
    pub start_usage: Usage,
    /// Processor time used at `stop_time`.
    pub stop_usage: Usage,
    /// Sends completed.
    pub wc_send: u64,
    /// Receives completed.
    pub wc_recv: u64,

    // Connection manager and completions
    /// Event channel of the connection manager.
    pub cm_event_channel: *mut rdma_event_channel,

    /// Connection manager id.
    pub cm_id: *mut rdma_cm_id,

    /// 1 once `rdma_disconnect` has been called.
    pub disconnected: u32,

    /// Protection domain.
    pub protection_domain: *mut ibv_pd,

    /// Channel that tells when completions arrive.
    pub completion_channel: *mut ibv_comp_channel,

    /// Completion queue, for sends and receives.
    pub completion_queue: *mut ibv_cq,

    // Statistics on completion events
    /// Work completions, as many as one poll can give.
    pub work_completion: CArray<ibv_wc>,

    /// Elements of `work_completion`.
    pub max_n_work_completions: usize,

    /// Elements of `work_completion` that the last poll has filled.
    pub current_n_work_completions: usize,

    /// The next of these to be dealt with.
    pub index_work_completions: usize,

    /// Histogram: how many polls have given so many completions.
    pub completion_stats: Vec<u64>,

    /// Notifications that have come.
    pub notification_stats: u64,

    /// Successful calls of `poll`.
    pub poll_stats: u64,

    /// Descriptors for `poll`: events of the connection manager and completions.
    pub poll_fds: [pollfd; NUM_POLL_FD],

    // Data set-up and transfer
    /// Queue pair.
    pub queue_pair: *mut ibv_qp,

    /// Buffers for user data.
    pub user_data: [CArray<u8>; OUR_MAX_USER_DATA_BUFFERS],

    /// Memory regions of these buffers.
    pub user_data_mr: [*mut ibv_mr; OUR_MAX_USER_DATA_BUFFERS],

    /// Scatter-gather elements that cover these buffers.
    pub user_data_sge: CArray<ibv_sge>,

    /// Work requests to send user data.
    pub user_data_send_work_request: CArray<ibv_send_wr>,

    /// Work requests to receive user data.
    pub user_data_recv_work_request: CArray<ibv_recv_wr>,

    /// Buffers that are allocated and registered: so many are to be undone.
    pub n_user_data_bufs: usize,
}

impl Default for OurControl {
    fn default() -> Self {
        Self {
            start_time: Instant::now(),
            stop_time: Instant::now(),
            start_usage: Usage::default(),
            stop_usage: Usage::default(),
            wc_send: 0,
            wc_recv: 0,
            cm_event_channel: ptr::null_mut(),
            cm_id: ptr::null_mut(),
            disconnected: 0,
            protection_domain: ptr::null_mut(),
            completion_channel: ptr::null_mut(),
            completion_queue: ptr::null_mut(),
            work_completion: CArray::default(),
            max_n_work_completions: 0,
            current_n_work_completions: 0,
            index_work_completions: 0,
            completion_stats: Vec::new(),
            notification_stats: 0,
            poll_stats: 0,
            // poll ignores entries without a file descriptor
            poll_fds: [pollfd { fd: -1, events: 0, revents: 0 }; NUM_POLL_FD],
            queue_pair: ptr::null_mut(),
            user_data: Default::default(),
            user_data_mr: [ptr::null_mut(); OUR_MAX_USER_DATA_BUFFERS],
            user_data_sge: CArray::default(),
            user_data_send_work_request: CArray::default(),
            user_data_recv_work_request: CArray::default(),
            n_user_data_bufs: 0,
        }
    }
}
