//! A server that answers calls until its client hangs up, and waits for both in one place.

use std::process::ExitCode;

use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_accept, our_ack_cq_events, our_cm_fd, our_cq_fd, our_disconnect,
    our_event_server, our_poll_cq, our_poll_fds, our_post_recv, our_post_send, our_req_notify_cq,
    our_set_nonblocking, our_setup_recv_wr, our_setup_send_wr, our_try_get_cm_event,
    our_try_get_cq_event, our_unsetup,
};
use rdma_sys::{ibv_wc_opcode, rdma_cm_event_type};

/// Receives that are posted at a time.
const RECEIVES: u32 = 8;

/// Answers the calls that have come, and posts receives for as many. How many there were.
fn answer(conn: &OurControl) -> OurResult<u32> {
    let mut calls = 0;
    while let Some(work_completion) = our_poll_cq(conn)? {
        // those of the answers are in the same queue
        if work_completion.opcode == ibv_wc_opcode::IBV_WC_RECV {
            our_post_recv(conn, &mut our_setup_recv_wr(&mut []))?;
            our_post_send(conn, &mut our_setup_send_wr(&mut []))?;
            calls += 1;
        }
    }
    Ok(calls)
}

/// Answers calls until the client has hung up. How many there were.
fn serve(conn: &OurControl) -> OurResult<u32> {
    let fds = [our_cm_fd(conn), our_cq_fd(conn)];
    for fd in fds {
        our_set_nonblocking(conn, fd)?;
    }
    our_req_notify_cq(conn, false)?;
    let (mut calls, mut is_over) = (answer(conn)?, false);
    while !is_over {
        our_poll_fds(conn, fds, -1)?;
        let mut events = 0;
        while our_try_get_cq_event(conn)? {
            events += 1;
        }
        our_ack_cq_events(conn, events);
        // first this, then the polls: what comes in between is found, or makes an event
        our_req_notify_cq(conn, false)?;
        calls += answer(conn)?;
        while let Some(event) = our_try_get_cm_event(conn)? {
            is_over |= event == rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED;
        }
    }
    Ok(calls)
}

fn run() -> OurResult {
    let options = OurOptions { message: "server", with_channel: true, ..OurOptions::default() };
    // with an event channel of its own: no call waits for an event
    let mut conn = our_event_server(options)?;
    for _ in 0..RECEIVES {
        our_post_recv(&conn, &mut our_setup_recv_wr(&mut []))?;
    }
    our_accept(&mut conn, &[])?;

    let calls = serve(&conn)?;
    outln!("the client has hung up after {calls} calls");

    our_disconnect(&mut conn)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
