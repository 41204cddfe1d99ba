//! Right, otherwise: lists of as many messages as there are credits, with one completion each.

use std::process::ExitCode;

use common::memory::CArray;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_await_completion, our_buffer, our_client, our_connect,
    our_dereg_mr, our_disconnect, our_imm, our_post_recv, our_post_send, our_reg_mr,
    our_set_number, our_setup_recv_wr, our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_mr};

const MESSAGES: usize = 100;

/// Posts so many messages by one call, beginning with that of this place; the last one is signaled.
fn post(
    conn: &OurControl,
    buffer: &CArray<u8>,
    mr: *mut ibv_mr,
    (place, count): (usize, usize),
) -> OurResult {
    let mut sges: Vec<_> = (place..place + count)
        .map(|place| {
            let mut sge = our_setup_sge(buffer, mr);
            sge.addr += 8 * place as u64;
            sge.length = 8;
            [sge]
        })
        .collect();
    let mut wrs: Vec<_> = sges.iter_mut().map(|sges| our_setup_send_wr(sges)).collect();
    for at in 1..count {
        wrs[at - 1].send_flags = 0;
        wrs[at - 1].next = &mut wrs[at];
    }
    // so many places become free when it completes
    wrs[count - 1].wr_id = count as u64;
    our_post_send(conn, &mut wrs[0])
}

/// Sends all messages to a server that has so many receives posted.
fn blast(conn: &OurControl, buffer: &CArray<u8>, mr: *mut ibv_mr, receives: u32) -> OurResult {
    let receives = receives as usize;
    let (mut sent, mut under_way, mut credits) = (0, 0, receives);
    while sent < MESSAGES || under_way > 0 || credits < receives {
        let count = credits.min(MESSAGES - sent);
        if count > 0 {
            post(conn, buffer, mr, (sent, count))?;
            sent += count;
            under_way += count;
            credits -= count;
        }
        let work_completion = our_await_completion(conn)?;
        match our_imm(&work_completion) {
            Some(more) => {
                our_post_recv(conn, &mut our_setup_recv_wr(&mut []))?;
                credits += more as usize;
            }
            None => under_way -= work_completion.wr_id as usize,
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
