//! Wrong. The coach says: is not armed

use std::process::ExitCode;

use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_accept, our_ack_cq_events, our_buffer, our_dereg_mr,
    our_disconnect, our_get_cq_event, our_poll_cq, our_post_recv, our_reg_mr, our_req_notify_cq,
    our_server, our_setup_recv_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::ibv_access_flags;

const MESSAGES: u32 = 20;

/// Takes all messages.
fn take(conn: &OurControl) -> OurResult {
    let (mut left, mut events) = (MESSAGES, 0);
    our_req_notify_cq(conn, false)?;
    while our_poll_cq(conn)?.is_some() {
        left -= 1;
    }
    while left > 0 {
        our_get_cq_event(conn)?;
        events += 1;
        while our_poll_cq(conn)?.is_some() {
            left -= 1;
        }
    }
    our_ack_cq_events(conn, events);
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
