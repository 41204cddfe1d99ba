//! Right, otherwise: it sleeps at the event channel only, for ten milliseconds at a time, and polls in between.

use std::process::ExitCode;

use common::memory::CArray;
use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_await_cm_event, our_buffer, our_cm_fd, our_connect, our_dereg_mr,
    our_disconnect, our_event_client, our_poll_cq, our_poll_fds, our_post_recv, our_post_send,
    our_reg_mr, our_setup_recv_wr, our_setup_send_wr, our_setup_sge, our_try_get_cm_event,
    our_unsetup,
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
    let (mut taken, mut is_over) = (0, false);
    loop {
        while our_poll_cq(conn)?.is_some() {
            let mut sges = [place(buffer, mr, taken)];
            let mut answer = our_setup_send_wr(&mut sges);
            // nobody needs to know when it is done; a failed one has a completion all the same
            answer.send_flags = 0;
            our_post_send(conn, &mut answer)?;
            taken += 1;
        }
        // one look more after the end: what came before it is in the queue
        if taken == MESSAGES || is_over {
            return Ok(taken);
        }
        let [is_event] = our_poll_fds(conn, [our_cm_fd(conn)], 10)?;
        if is_event {
            let event = our_try_get_cm_event(conn)?;
            is_over |= event == Some(rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED);
        }
    }
}

fn run() -> OurResult {
    let options = OurOptions { message: "client", ..OurOptions::default() };
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
