//! Constants and the two structures that every part of the program uses.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use byteorder::{ByteOrder, NetworkEndian};
use common::memory::{CArray, Zeroable, zeroed};
use common::utilities::{Reporting, Usage};
use rdma_sys::{
    ibv_comp_channel, ibv_cq, ibv_mr, ibv_pd, ibv_qp, ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_wc,
    rdma_cm_event_type, rdma_cm_id, rdma_event_channel,
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

/// Bytes in one ack message.
pub const OUR_ACK_SIZE: usize = 8;

/// At most so many buffers for user data.
pub const OUR_MAX_USER_DATA_BUFFERS: usize = 2;

/// At most so many work requests of each kind.
pub const OUR_MAX_WORK_REQUESTS: usize = 2;

/// At most so many buffers that one side tells the other about.
pub const OUR_MAX_BUFFER_INFOS: usize = 2;

/// At most so many scatter-gather elements in one work request.
pub const OUR_MAX_SGES: usize = 1;

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
    Out0,
    Out1,
    Out1a,
    Out2,
    Out2a,
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

/// Where a buffer of ours is, told to the other side so that it can read and write there: what it
/// has to know of an `ibv_mr`. On the wire a 64-bit address, a 32-bit length and a 32-bit key, all
/// in network byte order.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct OurBufferInfo([u8; Self::LEN]);

// SAFETY: plain bytes.
unsafe impl Zeroable for OurBufferInfo {}

impl OurBufferInfo {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    /// The message about `len` bytes at `addr` that `rkey` gives access to.
    pub fn new(addr: u64, len: u32, rkey: u32) -> Self {
        let mut info = [0; Self::LEN];
        NetworkEndian::write_u64(&mut info[..8], addr);
        NetworkEndian::write_u32(&mut info[8..12], len);
        NetworkEndian::write_u32(&mut info[12..], rkey);
        Self(info)
    }

    /// Address of the buffer.
    pub fn addr(self) -> u64 {
        NetworkEndian::read_u64(&self.0[..8])
    }

    /// The key with which the other side gets at it.
    pub fn rkey(self) -> u32 {
        NetworkEndian::read_u32(&self.0[12..])
    }
}

/// An ack message: how many pings the client has made. On the wire the number is 32-bit in network
/// byte order, and four more bytes follow.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct OurAckInfo([u8; OUR_ACK_SIZE]);

// SAFETY: plain bytes.
unsafe impl Zeroable for OurAckInfo {}

impl OurAckInfo {
    /// The message that acks so many.
    pub fn new(ack_count: u32) -> Self {
        let mut ack_data = [0; OUR_ACK_SIZE];
        NetworkEndian::write_u32(&mut ack_data[..4], ack_count);
        Self(ack_data)
    }

    /// How many the message acks.
    pub fn ack_count(self) -> u32 {
        NetworkEndian::read_u32(&self.0[..4])
    }
}

/// An id of the connection manager that goes from one thread to another.
#[derive(Clone, Copy)]
pub struct CmId(pub *mut rdma_cm_id);

// SAFETY: librdmacm does its own locking and lets any thread use an id; the main-line thread
// destroys an id only after the event thread of its channel has ended.
unsafe impl Send for CmId {}

/// Information from the connection manager's event thread for the main-line thread.
pub struct CmEventInfo {
    /// Whether the connection is over: 0 no; 1 the remote side has disconnected; 2 we have; 3 the
    /// remote side has, and a flushed completion told us; 4 the event thread was cancelled before
    /// any of this.
    pub disconnected: u32,

    /// How many threads wait for `cm_event_info_notify`.
    pub waiting_on_info_notify: u32,

    /// Type of the latest event.
    pub latest_cm_event_type: rdma_cm_event_type::Type,

    /// Status of the latest event: 0, a negative errno, or the reason of a rejection.
    pub latest_status: i32,

    /// The id that the latest event is about.
    pub latest_cm_id: CmId,

    /// Bytes of private data in the latest event.
    pub latest_private_data_len: u8,

    /// Private data of the latest event.
    pub latest_private_data: OurConnectInfo,

    /// Type of the event that the main-line thread has processed last.
    pub current_cm_event_type: rdma_cm_event_type::Type,
}

impl Default for CmEventInfo {
    fn default() -> Self {
        Self {
            disconnected: 0,
            waiting_on_info_notify: 0,
            // begin with an unlikely value
            latest_cm_event_type: rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_ERROR,
            latest_status: 0,
            latest_cm_id: CmId(ptr::null_mut()),
            latest_private_data_len: 0,
            latest_private_data: OurConnectInfo::default(),
            current_cm_event_type: rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_ERROR,
        }
    }
}

/// [`CmEventInfo`] behind its lock, shared by the two threads.
#[derive(Default)]
pub struct CmEventShare {
    cm_event_info_lock: Mutex<CmEventInfo>,

    /// Tells that the information has changed.
    pub cm_event_info_notify: Condvar,
}

impl CmEventShare {
    /// The information, for as long as the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, CmEventInfo> {
        self.cm_event_info_lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that waits for events of the connection manager.
pub struct CmEventThread {
    /// The number that identifies it in traces (C: `pthread_t`).
    pub cm_event_thread_id: u64,
    /// To wait for its end, which gives 0, or all ones if it was cancelled.
    pub handle: JoinHandle<usize>,
    /// Cancels the thread when it is dropped.
    pub cancel: Option<OwnedFd>,
}

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
    /// Times that an RDMA read and an RDMA write have both completed.
    pub wc_rdma_both: u64,

    // Connection manager and completions
    /// Event channel of the connection manager.
    pub cm_event_channel: *mut rdma_event_channel,

    /// Connection manager id.
    pub cm_id: *mut rdma_cm_id,

    /// Protection domain.
    pub protection_domain: *mut ibv_pd,

    /// Channel that tells when completions arrive.
    pub completion_channel: *mut ibv_comp_channel,

    /// Completion queue, for sends and receives.
    pub completion_queue: *mut ibv_cq,

    /// Completion events that are not yet acknowledged.
    pub cq_events_that_need_ack: u32,

    /// Information from the event thread.
    pub cm_event_info: Arc<CmEventShare>,

    /// The event thread.
    pub cm_event_thread: Option<CmEventThread>,

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

    // Data set-up and transfer
    /// Queue pair.
    pub queue_pair: *mut ibv_qp,

    /// Buffers for user data.
    pub user_data: [CArray<u8>; OUR_MAX_USER_DATA_BUFFERS],

    /// Memory regions of these buffers.
    pub user_data_mr: [*mut ibv_mr; OUR_MAX_USER_DATA_BUFFERS],

    /// Scatter-gather elements that cover these buffers.
    pub user_data_sge: CArray<ibv_sge>,

    /// Work requests to read and write user data.
    pub user_data_send_work_request: CArray<ibv_send_wr>,

    /// Buffers that are allocated and registered: so many are to be undone.
    pub n_user_data_bufs: usize,

    // To receive an ack
    /// Memory that the ack is received into.
    pub recv_ack: CArray<OurAckInfo>,

    /// Its memory region.
    pub recv_ack_mr: [*mut ibv_mr; 1],

    /// Work request to receive it.
    pub recv_ack_work_request: Cell<ibv_recv_wr>,

    /// Scatter-gather element of that request.
    pub recv_ack_sge: CArray<ibv_sge>,

    // To send an ack
    /// Memory that the ack is sent from. It is sent inline, so that it has no memory region.
    pub send_ack: CArray<OurAckInfo>,

    /// Work request to send it.
    pub send_ack_work_request: Cell<ibv_send_wr>,

    /// Scatter-gather element of that request.
    pub send_ack_sge: CArray<ibv_sge>,

    // To receive immediate data
    /// Work request that a write with immediate data uses up. It has no memory.
    pub recv_imm_work_request: Cell<ibv_recv_wr>,

    // To tell the other side where our user data are, so that it can read and write them
    /// Description of our buffers, which we send.
    pub local_buffer_info: CArray<OurBufferInfo>,

    /// Its memory regions.
    pub local_buffer_info_mr: [*mut ibv_mr; OUR_MAX_SGES],

    /// Work request to send it.
    pub local_buffer_info_work_request: Cell<ibv_send_wr>,

    /// Scatter-gather elements of that request.
    pub local_buffer_info_sge: CArray<ibv_sge>,

    // To be told where the other side's user data are, so that we can read and write them
    /// Description of its buffers, which we receive.
    pub remote_buffer_info: CArray<OurBufferInfo>,

    /// Its memory regions.
    pub remote_buffer_info_mr: [*mut ibv_mr; OUR_MAX_SGES],

    /// Work request to receive it.
    pub remote_buffer_info_work_request: Cell<ibv_recv_wr>,

    /// Scatter-gather elements of that request.
    pub remote_buffer_info_sge: CArray<ibv_sge>,
}

impl Default for OurControl {
    fn default() -> Self {
        Self {
            start_time: Instant::now(),
            stop_time: Instant::now(),
            start_usage: Usage::default(),
            stop_usage: Usage::default(),
            wc_rdma_both: 0,
            cm_event_channel: ptr::null_mut(),
            cm_id: ptr::null_mut(),
            protection_domain: ptr::null_mut(),
            completion_channel: ptr::null_mut(),
            completion_queue: ptr::null_mut(),
            cq_events_that_need_ack: 0,
            cm_event_info: Arc::default(),
            cm_event_thread: None,
            work_completion: CArray::default(),
            max_n_work_completions: 0,
            current_n_work_completions: 0,
            index_work_completions: 0,
            completion_stats: Vec::new(),
            notification_stats: 0,
            queue_pair: ptr::null_mut(),
            user_data: Default::default(),
            user_data_mr: [ptr::null_mut(); OUR_MAX_USER_DATA_BUFFERS],
            user_data_sge: CArray::default(),
            user_data_send_work_request: CArray::default(),
            n_user_data_bufs: 0,
            recv_ack: CArray::default(),
            recv_ack_mr: [ptr::null_mut()],
            recv_ack_work_request: Cell::new(zeroed()),
            recv_ack_sge: CArray::default(),
            send_ack: CArray::default(),
            send_ack_work_request: Cell::new(zeroed()),
            send_ack_sge: CArray::default(),
            recv_imm_work_request: Cell::new(zeroed()),
            local_buffer_info: CArray::default(),
            local_buffer_info_mr: [ptr::null_mut(); OUR_MAX_SGES],
            local_buffer_info_work_request: Cell::new(zeroed()),
            local_buffer_info_sge: CArray::default(),
            remote_buffer_info: CArray::default(),
            remote_buffer_info_mr: [ptr::null_mut(); OUR_MAX_SGES],
            remote_buffer_info_work_request: Cell::new(zeroed()),
            remote_buffer_info_sge: CArray::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn big_endian_on_the_wire() {
        let info = OurBufferInfo::new(0x708, 0x102, 0x304);
        assert_eq!(info.0, [0, 0, 0, 0, 0, 0, 7, 8, 0, 0, 1, 2, 0, 0, 3, 4]);
        assert_eq!((info.addr(), info.rkey()), (0x708, 0x304));

        let ack = OurAckInfo::new(0x708);
        assert_eq!(ack.0, [0, 0, 7, 8, 0, 0, 0, 0]);
        assert_eq!(ack.ack_count(), 0x708);
    }
}
