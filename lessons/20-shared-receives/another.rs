//! Right, otherwise: a thread sleeps until the event comes, and posts what is free by then in one list.

use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use common::memory::CArray;
use common::outln;
use common::utilities::{OurResult, Reported, exit_code};
use kit::{
    OurControl, OurOptions, failed, our_accept_next, our_buffer, our_create_srq, our_dereg_mr,
    our_destroy_srq, our_disconnect, our_get_async_event, our_poll_cq, our_post_send,
    our_post_srq_recv, our_qp_num, our_reg_mr, our_setup_recv_wr, our_setup_send_wr, our_setup_sge,
    our_shared_server, our_unsetup,
};
use rdma_sys::{
    ibv_access_flags, ibv_event_type, ibv_modify_srq, ibv_mr, ibv_recv_wr, ibv_sge, ibv_srq,
    ibv_srq_attr, ibv_srq_attr_mask, ibv_wc_opcode,
};

/// Messages of both connections together.
const MESSAGES: u32 = 33;
/// So many receives have memory.
const RECEIVES: u32 = 16;
/// Bytes of each.
const LENGTH: usize = 32;
/// The event comes when fewer receives are left.
const LIMIT: u32 = 8;

/// A shared receive queue, and memory for its receives.
struct Queue {
    srq: *mut ibv_srq,
    buffer: CArray<u8>,
    mr: *mut ibv_mr,
}

// SAFETY: verbs may be called from any thread, and neither thread reads or writes the buffer.
unsafe impl Sync for Queue {}

/// The part of the base that both threads use.
struct Base<'b>(&'b OurControl);

// SAFETY: as above, and the base does not change while there are two threads.
unsafe impl Sync for Base<'_> {}

/// Posts a list of receives, one for each of these places in the buffer, of `LENGTH` bytes.
fn post(base: &OurControl, queue: &Queue, places: impl IntoIterator<Item = u64>) -> OurResult {
    let places: Vec<u64> = places.into_iter().collect();
    let whole = our_setup_sge(&queue.buffer, queue.mr);
    let sge = |place: &u64| ibv_sge {
        addr: whole.addr + place * LENGTH as u64,
        length: LENGTH as u32,
        ..whole
    };
    let mut sges: Vec<[ibv_sge; 1]> = places.iter().map(|place| [sge(place)]).collect();
    let mut wrs: Vec<ibv_recv_wr> = sges.iter_mut().map(|sge| our_setup_recv_wr(sge)).collect();
    for (wr, place) in wrs.iter_mut().zip(&places) {
        wr.wr_id = *place;
    }
    for at in 1..wrs.len() {
        wrs[at - 1].next = &raw mut wrs[at];
    }
    wrs.first_mut().map_or(Ok(()), |first| our_post_srq_recv(base, queue.srq, first))
}

/// Arms the limit for one event.
fn arm(base: &OurControl, queue: &Queue) -> OurResult {
    let mut attr = ibv_srq_attr { max_wr: 0, max_sge: 0, srq_limit: LIMIT };
    let mask = ibv_srq_attr_mask::IBV_SRQ_LIMIT;
    // SAFETY: the queue is alive; the library reads the attributes during the call.
    let ret = unsafe { ibv_modify_srq(queue.srq, &mut attr, mask.0 as i32) };
    if ret != 0 { Err(failed("ibv_modify_srq", ret, &base.options)) } else { Ok(()) }
}

/// Answers by the connection that has this queue pair.
fn answer(conns: &[OurControl], qp_num: u32) -> OurResult {
    let conn = conns.iter().find(|conn| our_qp_num(conn) == qp_num);
    conn.map_or(Ok(()), |conn| our_post_send(conn, &mut our_setup_send_wr(&mut [])))
}

/// Takes all messages and answers each.
fn take(base: &OurControl, conns: &[OurControl], free: &Sender<u64>) -> OurResult {
    let mut left = MESSAGES;
    while left > 0 {
        let Some(work_completion) = our_poll_cq(base)? else {
            thread::yield_now();
            continue;
        };
        if work_completion.opcode == ibv_wc_opcode::IBV_WC_RECV {
            let _ = free.send(work_completion.wr_id);
            left -= 1;
            answer(conns, work_completion.qp_num)?;
        }
    }
    Ok(())
}

/// Posts what is free whenever the event comes, until the connections end.
fn fill(base: &Base<'_>, queue: &Queue, free: &Receiver<u64>) -> OurResult {
    const LIMIT_REACHED: u32 = ibv_event_type::IBV_EVENT_SRQ_LIMIT_REACHED as u32;
    const LAST_REACHED: u32 = ibv_event_type::IBV_EVENT_QP_LAST_WQE_REACHED as u32;
    loop {
        match our_get_async_event(base.0)? {
            LIMIT_REACHED => {
                post(base.0, queue, free.try_iter())?;
                arm(base.0, queue)?;
            }
            // a queue pair takes no more receives
            LAST_REACHED => return Ok(()),
            _ => {}
        }
    }
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

    let (sender, receiver) = mpsc::channel();
    let shared = Base(&base);
    thread::scope(|scope| {
        let filling = scope.spawn(|| fill(&shared, &queue, &{ receiver }));
        let taken = take(&base, &conns, &sender);
        // this is what ends the thread, too
        let ended = conns.iter_mut().try_for_each(our_disconnect);
        let filled = filling.join().unwrap_or(Err(Reported));
        taken.and(ended).and(filled)
    })?;
    outln!("{MESSAGES} messages have come");

    conns.iter_mut().try_for_each(our_unsetup)?;
    our_destroy_srq(&base, queue.srq)?;
    our_dereg_mr(&base, queue.mr)?;
    our_unsetup(&mut base)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
