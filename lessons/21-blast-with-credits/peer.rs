//! The server: takes messages one after the other, posts each receive again, and tells the client so.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use common::memory::CArray;
use common::utilities::{OurResult, Reported, exit_code};
use common::{errln, outln};
use kit::{
    OurControl, OurOptions, our_accept, our_await_completion, our_buffer, our_dereg_mr,
    our_disconnect, our_is_again, our_number, our_post_recv, our_post_send, our_reg_mr, our_server,
    our_set_imm, our_setup_recv_wr, our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_mr, ibv_wc_opcode};

const MESSAGES: u64 = 100;
/// The number of receives in the first run and in the second.
const RECEIVES: [u8; 2] = [8, 6];
/// The time that the work on each message takes.
const WORK: Duration = Duration::from_micros(300);

/// Posts the receive that has this place in the buffer.
fn post(conn: &OurControl, buffer: &CArray<u8>, mr: *mut ibv_mr, place: u64) -> OurResult {
    let mut sge = our_setup_sge(buffer, mr);
    sge.addr += 8 * place;
    sge.length = 8;
    let mut sges = [sge];
    let mut wr = our_setup_recv_wr(&mut sges);
    wr.wr_id = place;
    our_post_recv(conn, &mut wr)
}

/// Takes all messages, and sends the credits, `at_a_time` in a message. True if the messages were
/// numbered from 0.
fn take(
    conn: &OurControl,
    buffer: &CArray<u8>,
    mr: *mut ibv_mr,
    at_a_time: u32,
) -> OurResult<bool> {
    let (mut taken, mut untold, mut told, mut in_order) = (0, 0, 0, true);
    while taken < MESSAGES || told > 0 {
        let work_completion = our_await_completion(conn)?;
        if work_completion.opcode != ibv_wc_opcode::IBV_WC_RECV {
            told -= 1;
            continue;
        }
        let place = work_completion.wr_id;
        in_order &= our_number(buffer, place as usize) == taken;
        thread::sleep(WORK);
        post(conn, buffer, mr, place)?;
        taken += 1;
        untold += 1;
        if untold == at_a_time || taken == MESSAGES {
            let mut wr = our_setup_send_wr(&mut []);
            our_set_imm(&mut wr, untold);
            our_post_send(conn, &mut wr)?;
            untold = 0;
            told += 1;
        }
    }
    Ok(in_order)
}

fn serve() -> OurResult {
    let receives = RECEIVES[usize::from(our_is_again())];
    let options =
        OurOptions { message: "peer", recv_queue_depth: receives.into(), ..OurOptions::default() };
    let mut conn = our_server(options)?;
    let buffer = our_buffer(&conn, 8 * usize::from(receives))?;
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    for place in 0..receives {
        post(&conn, &buffer, mr, place.into())?;
    }
    our_accept(&mut conn, &[receives])?;

    // credits for half of the receives at a time: two messages with credits can be under way
    let in_order = take(&conn, &buffer, mr, u32::from(receives) / 2)?;
    outln!("{MESSAGES} messages have come");

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)?;
    if !in_order {
        errln!("peer: the messages are not numbered from 0");
        return Err(Reported);
    }
    Ok(())
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
