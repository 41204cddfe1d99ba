//! A connection with its objects, and what its queues shall be like.

use std::ptr;

use common::utilities::{Reported, Reporting, our_report_error};
use rdma_sys::{ibv_comp_channel, ibv_cq, ibv_pd, ibv_qp, rdma_cm_id, rdma_event_channel};

/// Where the servers of all lessons listen. Each run has a fabric of its own.
pub const OUR_ADDRESS: &str = "127.0.0.1";
/// Their port.
pub const OUR_PORT: &str = "12321";

/// Options of a program.
#[derive(Clone, Copy, Debug)]
pub struct OurOptions {
    /// Begins every line that reports a failure.
    pub message: &'static str,
    /// Depth of the send queue, in work requests.
    pub send_queue_depth: u32,
    /// Depth of the receive queue, in work requests.
    pub recv_queue_depth: u32,
    /// Elements that one send may have.
    pub max_send_sge: u32,
    /// Elements that one receive may have.
    pub max_recv_sge: u32,
    /// Bytes that a send may carry in its work request.
    pub max_inline_data: u32,
    /// The completion queue gets a channel, so that one can sleep until something completes.
    pub with_channel: bool,
}

impl Default for OurOptions {
    fn default() -> Self {
        Self {
            message: "program",
            send_queue_depth: 16,
            recv_queue_depth: 16,
            max_send_sge: 4,
            max_recv_sge: 4,
            max_inline_data: 0,
            with_channel: false,
        }
    }
}

impl Reporting for OurOptions {
    fn message(&self) -> &str {
        self.message
    }

    fn tracing(&self) -> bool {
        false
    }
}

/// Everything about one connection. The pointers belong to the libraries; each is null until the step
/// that sets it.
#[derive(Debug)]
pub struct OurControl {
    /// The program's options.
    pub options: OurOptions,
    /// Of a server: the id that listens.
    pub listen_id: *mut rdma_cm_id,
    /// The channel of the connection's events, if its calls do not wait for them.
    pub event_channel: *mut rdma_event_channel,
    /// The id of the connection.
    pub cm_id: *mut rdma_cm_id,
    /// Protection domain.
    pub protection_domain: *mut ibv_pd,
    /// Completion channel, if there is one.
    pub completion_channel: *mut ibv_comp_channel,
    /// Completion queue, for sends and receives.
    pub completion_queue: *mut ibv_cq,
    /// Queue pair.
    pub queue_pair: *mut ibv_qp,
    /// Private data of the peer's request or answer; the connection manager
    /// adds zeros.
    pub peer_data: Vec<u8>,
}

impl OurControl {
    pub(crate) fn new(options: OurOptions) -> Self {
        Self {
            options,
            listen_id: ptr::null_mut(),
            event_channel: ptr::null_mut(),
            cm_id: ptr::null_mut(),
            protection_domain: ptr::null_mut(),
            completion_channel: ptr::null_mut(),
            completion_queue: ptr::null_mut(),
            queue_pair: ptr::null_mut(),
            peer_data: Vec::new(),
        }
    }
}

/// Reports that a verb has failed, with what it returned and `errno`.
pub fn failed(verb: &str, ret: i32, options: &OurOptions) -> Reported {
    our_report_error(ret, verb, options);
    Reported
}
