//! Right, otherwise: as many messages as there are bytes for, and a queue of that depth.

use std::process::ExitCode;

use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_accept, our_await_completion, our_buffer, our_dereg_mr,
    our_disconnect, our_listener, our_next_request, our_post_recv, our_reg_mr, our_reject,
    our_setup_qp, our_setup_recv_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::ibv_access_flags;

/// Bytes that there are for messages.
const ROOM: u32 = 8 * 1024;
/// Bytes that a message may have.
const SIZE: u32 = 1024;
const CLIENTS: u32 = 2;

/// A client's wish: so many messages, and so many bytes of each.
fn our_wanted(private_data: &[u8]) -> (u32, u32) {
    // most significant byte first
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
    (number(&private_data[..4]), number(&private_data[4..8]))
}

/// Answers a request, and takes the messages if it accepts.
fn our_answer(conn: &mut OurControl) -> OurResult {
    let (count, size) = our_wanted(&conn.peer_data);
    if !(1..=SIZE).contains(&size) {
        return our_reject(conn, &SIZE.to_be_bytes());
    }
    let count = count.min(ROOM / size);

    conn.options.recv_queue_depth = count;
    our_setup_qp(conn)?;
    let buffer = our_buffer(conn, ROOM as usize)?;
    let mr = our_reg_mr(conn, &buffer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    for place in 0..count {
        let mut sge = our_setup_sge(&buffer, mr);
        sge.addr += u64::from(place * size);
        sge.length = size;
        our_post_recv(conn, &mut our_setup_recv_wr(&mut [sge]))?;
    }
    our_accept(conn, &count.to_be_bytes())?;

    for _ in 0..count {
        our_await_completion(conn)?;
    }
    outln!("{count} messages have come");
    our_disconnect(conn)?;
    our_dereg_mr(conn, mr)
}

fn serve() -> OurResult {
    let mut listener = our_listener(OurOptions { message: "server", ..OurOptions::default() })?;
    for _ in 0..CLIENTS {
        let mut conn = our_next_request(&listener)?;
        our_answer(&mut conn)?;
        our_unsetup(&mut conn)?;
    }
    our_unsetup(&mut listener)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
