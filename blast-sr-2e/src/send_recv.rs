//! Posts work requests.

use std::cell::Cell;
use std::ptr;

use common::errno;
use common::utilities::{OurResult, Reported};
use rdma_sys::{ibv_post_recv, ibv_post_send, ibv_recv_wr, ibv_send_wr};

use crate::prototypes::{OurControl, OurOptions};
use crate::utilities::our_report_error;

/// Posts a work request to the send queue.
pub fn our_post_send(
    conn: &OurControl,
    send_work_request: &Cell<ibv_send_wr>,
    options: &OurOptions,
) -> OurResult {
    let mut bad_wr = ptr::null_mut();

    errno::set(0);
    // SAFETY: the queue pair is alive. The library reads the request, any that its `next` leads to,
    // and their elements only during the call; they are `conn`'s. The adapter reaches a buffer only
    // through its region, and `our_unsetup_buffers` frees none whose region is still there.
    let ret = unsafe { ibv_post_send(conn.queue_pair, send_work_request.as_ptr(), &mut bad_wr) };
    if ret != 0 {
        our_report_error(ret, "ibv_post_send", options);
        return Err(Reported);
    }
    Ok(())
}

/// Posts a work request to the receive queue.
pub fn our_post_recv(
    conn: &OurControl,
    recv_work_request: &Cell<ibv_recv_wr>,
    options: &OurOptions,
) -> OurResult {
    let mut bad_wr = ptr::null_mut();

    errno::set(0);
    // SAFETY: as in `our_post_send`.
    let ret = unsafe { ibv_post_recv(conn.queue_pair, recv_work_request.as_ptr(), &mut bad_wr) };
    if ret != 0 {
        our_report_error(ret, "ibv_post_recv", options);
        return Err(Reported);
    }
    Ok(())
}
