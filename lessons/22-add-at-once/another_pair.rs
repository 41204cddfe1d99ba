//! Right, otherwise: two additions at a time, each with a place of its own for its answer.

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

/// Takes two numbers from the counter, which has this address and key in the server's memory, by one
/// call. They come into `answers`; the first is not signaled, for the second completes after it.
fn take(
    conn: &OurControl,
    answers: &CArray<u8>,
    mr: *mut ibv_mr,
    (address, rkey): (u64, u32),
) -> OurResult<u64> {
    let mut sges = [[our_setup_sge(answers, mr)], [our_setup_sge(answers, mr)]];
    sges[0][0].length = 8;
    sges[1][0].length = 8;
    sges[1][0].addr += 8;
    let mut wrs = sges.each_mut().map(|sges| {
        let mut wr = our_setup_send_wr(sges);
        wr.opcode = ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD;
        wr.wr.atomic.remote_addr = address;
        wr.wr.atomic.rkey = rkey;
        wr.wr.atomic.compare_add = 1;
        wr
    });
    wrs[0].send_flags = 0;
    wrs[0].next = &mut wrs[1];
    our_post_send(conn, &mut wrs[0])?;
    our_await_completion(conn)?;
    Ok(our_number(answers, 0) + our_number(answers, 1))
}

/// Tells the server the sum of all numbers that were taken, most significant byte first.
fn tell(conn: &OurControl, buffer: &CArray<u8>, mr: *mut ibv_mr, sum: u64) -> OurResult {
    our_set_number(buffer, 0, sum.to_be());
    let mut sge = our_setup_sge(buffer, mr);
    sge.length = 8;
    our_post_send(conn, &mut our_setup_send_wr(&mut [sge]))?;
    our_await_completion(conn)?;
    Ok(())
}

fn run() -> OurResult {
    let mut conn = our_client(OurOptions { message: "client", ..OurOptions::default() })?;
    let answer = our_buffer(&conn, 16)?;
    let mr = our_reg_mr(&conn, &answer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    our_connect(&mut conn, &[])?;

    // the server has said in its private data where its counter is
    let counter = our_remote(&conn.peer_data);
    let mut sum = 0;
    for _ in 0..NUMBERS / 2 {
        sum += take(&conn, &answer, mr, counter)?;
    }
    tell(&conn, &answer, mr, sum)?;

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
