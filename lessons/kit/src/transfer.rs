//! Posting work requests, and waiting for their completions.

use std::ptr;
use std::time::{Duration, Instant};

use common::memory::zeroed;
use common::utilities::{OurResult, Reported, our_report_wc_status};
use common::{errln, errno};
use rdma_sys::{
    ibv_poll_cq, ibv_post_recv, ibv_post_send, ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_sge,
    ibv_wc, ibv_wc_status, ibv_wr_opcode,
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

/// Time between two looks at the connection.
const LOOK: Duration = Duration::from_millis(10);
/// How long after the event of a disconnection a completion may come: the order of the two is not
/// defined.
const LATER: Duration = Duration::from_millis(200);
/// The least number of polls in that time: on a busy machine there may be few.
const POLLS: u32 = 100;

/// A work completion, if there is one and its status is good.
pub fn our_poll_cq(conn: &OurControl) -> OurResult<Option<ibv_wc>> {
    let mut work_completion: ibv_wc = zeroed();
    // SAFETY: the completion queue is alive, and there is room for one completion.
    match unsafe { ibv_poll_cq(conn.completion_queue, 1, &mut work_completion) } {
        0 => return Ok(None),
        1 => {}
        ret => return Err(failed("ibv_poll_cq", ret, &conn.options)),
    }
    if work_completion.status != ibv_wc_status::IBV_WC_SUCCESS {
        our_report_wc_status(work_completion.status as i32, "ibv_poll_cq", &conn.options);
        return Err(Reported);
    }
    Ok(Some(work_completion))
}

/// The next work completion, if its status is good. Polls until there is one, or until the peer has hung
/// up and there can be none.
pub fn our_await_completion(conn: &OurControl) -> OurResult<ibv_wc> {
    let (mut looked, mut over_since, mut polls) = (Instant::now(), None::<Instant>, 0);
    loop {
        if let Some(work_completion) = our_poll_cq(conn)? {
            return Ok(work_completion);
        }
        polls += u32::from(over_since.is_some());
        if polls >= POLLS && over_since.is_some_and(|since| since.elapsed() >= LATER) {
            errln!("{}: the peer has hung up", conn.options.message);
            return Err(Reported);
        }
        if over_since.is_none() && looked.elapsed() >= LOOK {
            looked = Instant::now();
            over_since = our_is_disconnected(conn).then_some(looked);
        }
        std::thread::yield_now();
    }
}

/// Is there an event of the connection? The next one behind its establishment is its end.
fn our_is_disconnected(conn: &OurControl) -> bool {
    if conn.cm_id.is_null() {
        return false;
    }
    // SAFETY: the id is alive, and a synchronous one has a channel.
    let fd = unsafe { (*(*conn.cm_id).channel).fd };
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure is there.
    unsafe { libc::poll(&mut poll, 1, 0) > 0 }
}

/// A signaled send of these elements.
pub fn our_setup_send_wr(sges: &mut [ibv_sge]) -> ibv_send_wr {
    let mut wr: ibv_send_wr = zeroed();
    wr.sg_list = sges.as_mut_ptr();
    wr.num_sge = sges.len() as i32;
    wr.opcode = ibv_wr_opcode::IBV_WR_SEND;
    wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
    wr
}

/// A receive into these elements.
pub fn our_setup_recv_wr(sges: &mut [ibv_sge]) -> ibv_recv_wr {
    let mut wr: ibv_recv_wr = zeroed();
    wr.sg_list = sges.as_mut_ptr();
    wr.num_sge = sges.len() as i32;
    wr
}
