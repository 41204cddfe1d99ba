//! Posting work requests, and waiting for their completions.

use std::ptr;

use common::errno;
use common::memory::zeroed;
use common::utilities::{OurResult, Reported, our_report_wc_status};
use rdma_sys::{
    ibv_poll_cq, ibv_post_recv, ibv_post_send, ibv_recv_wr, ibv_send_wr, ibv_wc, ibv_wc_status,
};

use crate::control::{OurControl, failed};

/// Posts a work request, and those that its `next` leads to, to the send queue. The elements that they
/// point at are read during the call, the memory that these name until the completion.
pub fn our_post_send(conn: &OurControl, work_request: &mut ibv_send_wr) -> OurResult {
    let mut bad_wr = ptr::null_mut();
    errno::set(0);
    // SAFETY: the queue pair is alive; the caller's requests point at elements that are there.
    let ret = unsafe { ibv_post_send(conn.queue_pair, work_request, &mut bad_wr) };
    if ret != 0 { Err(failed("ibv_post_send", ret, &conn.options)) } else { Ok(()) }
}

/// The same for the receive queue.
pub fn our_post_recv(conn: &OurControl, work_request: &mut ibv_recv_wr) -> OurResult {
    let mut bad_wr = ptr::null_mut();
    errno::set(0);
    // SAFETY: as in `our_post_send`.
    let ret = unsafe { ibv_post_recv(conn.queue_pair, work_request, &mut bad_wr) };
    if ret != 0 { Err(failed("ibv_post_recv", ret, &conn.options)) } else { Ok(()) }
}

/// The next work completion, if its status is good. Polls until there is one.
pub fn our_await_completion(conn: &OurControl) -> OurResult<ibv_wc> {
    let mut work_completion: ibv_wc = zeroed();
    loop {
        // SAFETY: the completion queue is alive, and there is room for one completion.
        match unsafe { ibv_poll_cq(conn.completion_queue, 1, &mut work_completion) } {
            0 => std::thread::yield_now(),
            1 => break,
            ret => return Err(failed("ibv_poll_cq", ret, &conn.options)),
        }
    }
    if work_completion.status != ibv_wc_status::IBV_WC_SUCCESS {
        our_report_wc_status(work_completion.status as i32, "ibv_poll_cq", &conn.options);
        return Err(Reported);
    }
    Ok(work_completion)
}
