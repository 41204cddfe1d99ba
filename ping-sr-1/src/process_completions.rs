//! Waits for completions.

use common::errno;
use common::memory::zeroed;
use common::utilities::{OurResult, Reported};
use rdma_sys::{ibv_poll_cq, ibv_wc, ibv_wc_status};

use crate::prototypes::{OurControl, OurOptions};
use crate::utilities::{
    our_report_error, our_report_string, our_report_ulong, our_report_wc_status,
};

/// Reports a work completion whose status is an error.
fn our_check_completion_status(
    _conn: &OurControl,
    work_completion: &ibv_wc,
    options: &OurOptions,
) -> OurResult {
    let ret = work_completion.status;
    if ret == ibv_wc_status::IBV_WC_SUCCESS {
        return Ok(());
    }
    if ret == ibv_wc_status::IBV_WC_WR_FLUSH_ERR {
        our_report_string("ibv_poll_cq", "completion status", "flushed", options);
    } else if !our_report_wc_status(ret as i32, "ibv_poll_cq", options) {
        our_report_ulong("ibv_poll_cq", "completion status", ret.into(), options);
    }
    Err(Reported)
}

/// The next work completion, if its status is good.
pub fn our_await_completion(conn: &mut OurControl, options: &OurOptions) -> OurResult<ibv_wc> {
    let mut work_completion: ibv_wc = zeroed();

    // busy wait for next work completion to appear in completion queue
    let ret = loop {
        errno::set(0);
        // SAFETY: the completion queue is alive, and there is room for one completion.
        let ret = unsafe { ibv_poll_cq(conn.completion_queue, 1, &mut work_completion) };
        if ret != 0 {
            break ret;
        }
    };

    // should have gotten exactly 1 work completion
    if ret != 1 {
        // ret cannot be 0, and should never be > 1, so must be < 0
        our_report_error(ret, "ibv_poll_cq", options);
        return Err(Reported);
    }
    our_check_completion_status(conn, &work_completion, options)?;
    Ok(work_completion)
}
