//! Right, otherwise: compare-and-swap, again and again until nobody has come between.

use std::process::ExitCode;

use common::memory::CArray;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_await_completion, our_buffer, our_client, our_connect,
    our_dereg_mr, our_disconnect, our_number, our_post_send, our_reg_mr, our_remote,
    our_set_number, our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_mr, ibv_wr_opcode};

const NUMBERS: u32 = 1000;

/// Takes a number from the counter, which has this address and key in the server's memory. What is
/// there comes into `answer`; `guess` is what was there when this was last seen.
fn take(
    conn: &OurControl,
    answer: &CArray<u8>,
    mr: *mut ibv_mr,
    (address, rkey): (u64, u32),
    guess: &mut u64,
) -> OurResult<u64> {
    let mut sges = [our_setup_sge(answer, mr)];
    let mut wr = our_setup_send_wr(&mut sges);
    wr.opcode = ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP;
    wr.wr.atomic.remote_addr = address;
    wr.wr.atomic.rkey = rkey;
    loop {
        let number = *guess;
        wr.wr.atomic.compare_add = number;
        wr.wr.atomic.swap = number + 1;
        our_post_send(conn, &mut wr)?;
        our_await_completion(conn)?;
        let found = our_number(answer, 0);
        if found == number {
            *guess = number + 1;
            return Ok(number);
        }
        // somebody else was faster
        *guess = found;
    }
}

/// Tells the server the sum of all numbers that were taken, most significant byte first.
fn tell(conn: &OurControl, buffer: &CArray<u8>, mr: *mut ibv_mr, sum: u64) -> OurResult {
    our_set_number(buffer, 0, sum.to_be());
    our_post_send(conn, &mut our_setup_send_wr(&mut [our_setup_sge(buffer, mr)]))?;
    our_await_completion(conn)?;
    Ok(())
}

fn run() -> OurResult {
    let mut conn = our_client(OurOptions { message: "client", ..OurOptions::default() })?;
    let answer = our_buffer(&conn, 8)?;
    let mr = our_reg_mr(&conn, &answer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    our_connect(&mut conn, &[])?;

    // the server has said in its private data where its counter is
    let counter = our_remote(&conn.peer_data);
    let (mut sum, mut guess) = (0, 0);
    for _ in 0..NUMBERS {
        sum += take(&conn, &answer, mr, counter, &mut guess)?;
    }
    tell(&conn, &answer, mr, sum)?;

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
