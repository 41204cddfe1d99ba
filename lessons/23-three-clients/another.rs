//! Right, otherwise: all use one completion queue and one region, and everything is destroyed at the end.

use std::process::ExitCode;
use std::thread;

use common::errln;
use common::memory::zeroed;
use common::utilities::{OurResult, Reported, exit_code};
use kit::{
    OurControl, OurOptions, our_accept, our_agent, our_buffer, our_dereg_mr, our_disconnect,
    our_get_cm_event, our_listener_with_channel, our_poll_cm_event, our_post_recv, our_post_send,
    our_reg_mr, our_setup_recv_wr, our_setup_send_wr, our_setup_sge, our_setup_shared_qp,
    our_unsetup,
};
use rdma_sys::{
    ibv_access_flags, ibv_poll_cq, ibv_sge, ibv_wc, ibv_wc_opcode, ibv_wc_status,
    rdma_cm_event_type,
};

const CLIENTS: usize = 3;
/// Bytes of a question.
const LENGTH: usize = 16;

/// A question that has come, by its queue pair's number.
fn our_question(listener: &OurControl) -> OurResult<Option<u32>> {
    let mut work_completion: ibv_wc = zeroed();
    // SAFETY: the completion queue is alive, and there is room for one completion.
    let found = unsafe { ibv_poll_cq(listener.completion_queue, 1, &mut work_completion) };
    match (found, work_completion.status, work_completion.opcode) {
        (0, ..) => Ok(None),
        // the receive of one who has hung up
        (1, ibv_wc_status::IBV_WC_WR_FLUSH_ERR, _) => Ok(None),
        (1, ibv_wc_status::IBV_WC_SUCCESS, ibv_wc_opcode::IBV_WC_RECV) => {
            Ok(Some(work_completion.qp_num))
        }
        (1, ibv_wc_status::IBV_WC_SUCCESS, _) => Ok(None),
        (_, status, _) => {
            errln!("{}: completion status {status}", listener.options.message);
            Err(Reported)
        }
    }
}

fn serve() -> OurResult {
    let options = OurOptions { message: "server", ..OurOptions::default() };
    let mut listener = our_listener_with_channel(options)?;
    let mut clients = Vec::new();
    while clients.len() < CLIENTS {
        let event = our_get_cm_event(&listener)?;
        if event.kind == rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST {
            let mut conn = our_agent(&listener, event);
            our_setup_shared_qp(&mut listener, &mut conn, CLIENTS as u32)?;
            clients.push(conn);
        }
    }

    // for each a question, and behind these for each an answer
    let buffer = our_buffer(&listener, 2 * CLIENTS * LENGTH)?;
    let mr = our_reg_mr(&listener, &buffer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    let piece = |at: usize| {
        let sge = our_setup_sge(&buffer, mr);
        ibv_sge { addr: sge.addr + (at * LENGTH) as u64, length: LENGTH as u32, ..sge }
    };
    for (at, conn) in clients.iter_mut().enumerate() {
        our_post_recv(conn, &mut our_setup_recv_wr(&mut [piece(at)]))?;
        our_accept(conn, &[])?;
    }

    let mut left = CLIENTS;
    while left > 0 {
        if let Some(event) = our_poll_cm_event(&listener)? {
            if event.kind == rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED {
                let mut found = clients.iter_mut().filter(|conn| conn.cm_id == event.cm_id);
                found.try_for_each(our_disconnect)?;
                left -= 1;
            }
        }
        if let Some(number) = our_question(&listener)? {
            // SAFETY: the queue pairs are alive.
            let is_it = |conn: &OurControl| unsafe { (*conn.queue_pair).qp_num } == number;
            if let Some(at) = clients.iter().position(is_it) {
                let (from, to) = (at * LENGTH, (CLIENTS + at) * LENGTH);
                (0..LENGTH).for_each(|byte| buffer[to + byte].set(buffer[from + byte].get()));
                our_post_recv(&clients[at], &mut our_setup_recv_wr(&mut [piece(at)]))?;
                let mut sges = [piece(CLIENTS + at)];
                our_post_send(&clients[at], &mut our_setup_send_wr(&mut sges))?;
            }
        }
        thread::yield_now();
    }

    clients.iter_mut().try_for_each(our_unsetup)?;
    our_dereg_mr(&listener, mr)?;
    our_unsetup(&mut listener)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
