//! A server that answers calls, and does not notice that its client has hung up.

use std::process::ExitCode;

use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_accept, our_ack_cq_events, our_disconnect, our_event_server,
    our_get_cq_event, our_poll_cq, our_post_recv, our_post_send, our_req_notify_cq,
    our_setup_recv_wr, our_setup_send_wr, our_unsetup,
};
use rdma_sys::ibv_wc_opcode;

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
    let mut calls = 0;
    our_req_notify_cq(conn, false)?;
    loop {
        calls += answer(conn)?;
        outln!("{calls} calls so far");
        // To do: wait for both channels in one place, and return with RDMA_CM_EVENT_DISCONNECTED.
        our_get_cq_event(conn)?;
        our_ack_cq_events(conn, 1);
        our_req_notify_cq(conn, false)?;
    }
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
