//! Right, otherwise: when nothing comes for a while it sends an empty message, and looks at the event channel.

use std::process::ExitCode;

use common::memory::{CArray, zeroed};
use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, failed, our_ack_cq_events, our_await_cm_event, our_buffer, our_cm_fd,
    our_connect, our_cq_fd, our_dereg_mr, our_disconnect, our_event_client, our_get_cq_event,
    our_poll_fds, our_post_recv, our_post_send, our_reg_mr, our_req_notify_cq, our_setup_recv_wr,
    our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::{
    ibv_access_flags, ibv_mr, ibv_poll_cq, ibv_sge, ibv_wc, ibv_wc_opcode, ibv_wc_status,
    rdma_cm_event_type,
};

/// As many as the server has promised.
const MESSAGES: u32 = 10;

/// The place of one message.
fn place(buffer: &CArray<u8>, mr: *mut ibv_mr, number: u32) -> ibv_sge {
    let mut sge = our_setup_sge(buffer, mr);
    sge.addr += 8 * u64::from(number);
    sge.length = 8;
    sge
}

/// The next completion, whatever its status.
fn poll(conn: &OurControl) -> OurResult<Option<ibv_wc>> {
    let mut work_completion: ibv_wc = zeroed();
    // SAFETY: the completion queue is alive, and there is room for one completion.
    match unsafe { ibv_poll_cq(conn.completion_queue, 1, &mut work_completion) } {
        0 => Ok(None),
        1 => Ok(Some(work_completion)),
        ret => Err(failed("ibv_poll_cq", ret, &conn.options)),
    }
}

/// Answers each message with its own bytes, as long as any come. How many there were.
fn take(conn: &OurControl, buffer: &CArray<u8>, mr: *mut ibv_mr) -> OurResult<u32> {
    let mut taken = 0;
    our_req_notify_cq(conn, false)?;
    loop {
        while let Some(work_completion) = poll(conn)? {
            if work_completion.status != ibv_wc_status::IBV_WC_SUCCESS {
                return Ok(taken);
            }
            if work_completion.opcode != ibv_wc_opcode::IBV_WC_RECV {
                continue;
            }
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
        let [is_completion] = our_poll_fds(conn, [our_cq_fd(conn)], 100)?;
        if is_completion {
            our_get_cq_event(conn)?;
            our_ack_cq_events(conn, 1);
            our_req_notify_cq(conn, false)?;
        } else {
            our_post_send(conn, &mut our_setup_send_wr(&mut []))?;
            let [is_event] = our_poll_fds(conn, [our_cm_fd(conn)], 0)?;
            if is_event {
                // the last question is not answered, and fails
                return Ok(taken);
            }
        }
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
