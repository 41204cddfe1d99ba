//! A server that takes twenty messages, and keeps a processor busy meanwhile.

use std::process::ExitCode;

use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_accept, our_await_completion, our_buffer, our_dereg_mr,
    our_disconnect, our_post_recv, our_reg_mr, our_server, our_setup_recv_wr, our_setup_sge,
    our_unsetup,
};
use rdma_sys::ibv_access_flags;

const MESSAGES: u32 = 20;

/// Takes all messages.
fn take(conn: &OurControl) -> OurResult {
    // To do: sleep while there is nothing. Arm the queue with our_req_notify_cq, wait with our_get_cq_event,
    // take what is there with our_poll_cq, and acknowledge each event with our_ack_cq_events.
    for _ in 0..MESSAGES {
        our_await_completion(conn)?;
    }
    Ok(())
}

fn serve() -> OurResult {
    // the completion queue has a channel
    let options = OurOptions {
        message: "server",
        recv_queue_depth: MESSAGES,
        with_channel: true,
        ..OurOptions::default()
    };
    let mut conn = our_server(options)?;
    let buffer = our_buffer(&conn, 8 * MESSAGES as usize)?;
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    for place in 0..u64::from(MESSAGES) {
        let mut sge = our_setup_sge(&buffer, mr);
        sge.addr += 8 * place;
        sge.length = 8;
        our_post_recv(&conn, &mut our_setup_recv_wr(&mut [sge]))?;
    }
    our_accept(&mut conn, &[])?;

    take(&conn)?;
    outln!("{MESSAGES} messages have come");

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
