//! Right, otherwise: it takes all completions that are there before it posts again.

use std::process::ExitCode;

use common::memory::CArray;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_buffer, our_client, our_connect, our_dereg_mr, our_disconnect,
    our_imm, our_poll_cq, our_post_recv, our_post_send, our_reg_mr, our_set_number,
    our_setup_recv_wr, our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_mr};

const MESSAGES: usize = 100;

/// Posts one message: the number that has this place in the buffer.
fn post(conn: &OurControl, buffer: &CArray<u8>, mr: *mut ibv_mr, place: usize) -> OurResult {
    let mut sge = our_setup_sge(buffer, mr);
    sge.addr += 8 * place as u64;
    sge.length = 8;
    our_post_send(conn, &mut our_setup_send_wr(&mut [sge]))
}

/// Sends all messages to a server that has so many receives posted.
fn blast(conn: &OurControl, buffer: &CArray<u8>, mr: *mut ibv_mr, receives: u32) -> OurResult {
    let (mut sent, mut under_way) = (0, 0);
    // both only grow: messages of which the server has told, and those that it has told of anew
    let (mut allowed, mut told) = (receives as usize, 0);
    while under_way > 0 || told < MESSAGES {
        while sent < allowed.min(MESSAGES) {
            post(conn, buffer, mr, sent)?;
            sent += 1;
            under_way += 1;
        }
        // all that is there
        while let Some(work_completion) = our_poll_cq(conn)? {
            let Some(more) = our_imm(&work_completion) else {
                under_way -= 1;
                continue;
            };
            our_post_recv(conn, &mut our_setup_recv_wr(&mut []))?;
            allowed += more as usize;
            told += more as usize;
        }
    }
    Ok(())
}

fn run() -> OurResult {
    let mut conn = our_client(OurOptions { message: "client", ..OurOptions::default() })?;
    let buffer = our_buffer(&conn, 8 * MESSAGES)?;
    (0..MESSAGES).for_each(|number| our_set_number(&buffer, number, number as u64));
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags(0))?;
    // the server tells of half of its receives at a time, so that two of its messages can be under way
    for _ in 0..2 {
        our_post_recv(&conn, &mut our_setup_recv_wr(&mut []))?;
    }
    our_connect(&mut conn, &[])?;

    let receives = conn.peer_data.first().copied().unwrap_or_default();
    blast(&conn, &buffer, mr, receives.into())?;

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
