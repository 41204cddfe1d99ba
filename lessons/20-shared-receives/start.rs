//! A server that takes the messages of two connections into the receives of one queue.

use std::process::ExitCode;
use std::thread;

use common::memory::CArray;
use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_accept_next, our_buffer, our_create_srq, our_dereg_mr,
    our_destroy_srq, our_disconnect, our_poll_cq, our_post_send, our_qp_num, our_reg_mr,
    our_setup_send_wr, our_setup_sge, our_shared_server, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_mr, ibv_srq, ibv_wc_opcode};

/// Messages of both connections together.
const MESSAGES: u32 = 33;
/// So many receives have memory.
const RECEIVES: u32 = 16;
/// Bytes of each.
const LENGTH: usize = 32;

/// A shared receive queue, and memory for its receives.
struct Queue {
    srq: *mut ibv_srq,
    buffer: CArray<u8>,
    mr: *mut ibv_mr,
}

/// Posts a receive for each of these places in the buffer, of `LENGTH` bytes.
fn post(_base: &OurControl, queue: &Queue, places: impl IntoIterator<Item = u64>) -> OurResult {
    for _place in places {
        let _whole = our_setup_sge(&queue.buffer, queue.mr);
        // To do: the place's part of it, and our_post_srq_recv, with the place as wr_id, so that the
        // completion says which is free again.
    }
    Ok(())
}

/// Arms the limit for one event.
fn arm(_base: &OurControl, _queue: &Queue) -> OurResult {
    // To do: ibv_modify_srq.
    Ok(())
}

/// Answers by the connection that has this queue pair.
fn answer(conns: &[OurControl], qp_num: u32) -> OurResult {
    let conn = conns.iter().find(|conn| our_qp_num(conn) == qp_num);
    conn.map_or(Ok(()), |conn| our_post_send(conn, &mut our_setup_send_wr(&mut [])))
}

/// Takes all messages and answers each. What is free is posted again when the event comes.
fn take(base: &OurControl, conns: &[OurControl], _queue: &Queue) -> OurResult {
    let (mut left, mut free) = (MESSAGES, Vec::new());
    while left > 0 {
        // To do: if our_poll_async_event has IBV_EVENT_SRQ_LIMIT_REACHED, post what is free.
        let Some(work_completion) = our_poll_cq(base)? else {
            thread::yield_now();
            continue;
        };
        // answers complete here, too
        if work_completion.opcode == ibv_wc_opcode::IBV_WC_RECV {
            free.push(work_completion.wr_id);
            left -= 1;
            answer(conns, work_completion.qp_num)?;
        }
    }
    Ok(())
}

fn serve() -> OurResult {
    // listens until the first client calls; there is no queue pair yet
    let mut base = our_shared_server(OurOptions { message: "server", ..OurOptions::default() })?;
    let buffer = our_buffer(&base, RECEIVES as usize * LENGTH)?;
    let mr = our_reg_mr(&base, &buffer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    let queue = Queue { srq: our_create_srq(&base, RECEIVES)?, buffer, mr };
    post(&base, &queue, 0..RECEIVES.into())?;
    arm(&base, &queue)?;
    // the queue pairs of both take their receives from the queue
    let mut conns =
        [our_accept_next(&mut base, queue.srq)?, our_accept_next(&mut base, queue.srq)?];

    take(&base, &conns, &queue)?;
    outln!("{MESSAGES} messages have come");

    for conn in &mut conns {
        our_disconnect(conn)?;
        our_unsetup(conn)?;
    }
    our_destroy_srq(&base, queue.srq)?;
    our_dereg_mr(&base, queue.mr)?;
    our_unsetup(&mut base)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
