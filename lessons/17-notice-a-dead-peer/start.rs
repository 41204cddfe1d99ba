//! A client that answers what its server sends.

use std::process::ExitCode;

use common::memory::CArray;
use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_ack_cq_events, our_await_cm_event, our_buffer, our_connect,
    our_dereg_mr, our_disconnect, our_event_client, our_get_cq_event, our_poll_cq, our_post_recv,
    our_post_send, our_reg_mr, our_req_notify_cq, our_setup_recv_wr, our_setup_send_wr,
    our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_mr, ibv_sge, rdma_cm_event_type};

/// As many as the server has promised.
const MESSAGES: u32 = 10;

/// The place of one message.
fn place(buffer: &CArray<u8>, mr: *mut ibv_mr, number: u32) -> ibv_sge {
    let mut sge = our_setup_sge(buffer, mr);
    sge.addr += 8 * u64::from(number);
    sge.length = 8;
    sge
}

/// Answers each message with its own bytes, as long as any come. How many there were.
fn take(conn: &OurControl, buffer: &CArray<u8>, mr: *mut ibv_mr) -> OurResult<u32> {
    let mut taken = 0;
    our_req_notify_cq(conn, false)?;
    loop {
        while our_poll_cq(conn)?.is_some() {
            let mut sges = [place(buffer, mr, taken)];
            let mut answer = our_setup_send_wr(&mut sges);
            // nobody needs to know when it is done; a failed one has a completion all the same
            answer.send_flags = 0;
            our_post_send(conn, &mut answer)?;
            taken += 1;
        }
        if taken == MESSAGES {
            return Ok(taken);
        }
        // To do: a server that is dead sends no message. Who tells, and where?
        our_get_cq_event(conn)?;
        our_ack_cq_events(conn, 1);
        our_req_notify_cq(conn, false)?;
    }
}

fn run() -> OurResult {
    let options = OurOptions { message: "client", with_channel: true, ..OurOptions::default() };
    let mut conn = our_event_client(options)?;
    let buffer = our_buffer(&conn, 8 * MESSAGES as usize)?;
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    for number in 0..MESSAGES {
        our_post_recv(&conn, &mut our_setup_recv_wr(&mut [place(&buffer, mr, number)]))?;
    }
    our_connect(&mut conn, &[])?;
    our_await_cm_event(&conn, rdma_cm_event_type::RDMA_CM_EVENT_ESTABLISHED)?;

    let taken = take(&conn, &buffer, mr);

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)?;
    outln!("{} of {MESSAGES} messages have come", taken?);
    Ok(())
}

pub fn main() -> ExitCode {
    exit_code(run())
}
