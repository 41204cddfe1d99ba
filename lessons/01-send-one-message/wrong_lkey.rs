//! Wrong. The coach says: fails with IBV_WC_LOC_PROT_ERR

use std::process::ExitCode;

use common::memory::{CArray, zeroed};
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_await_completion, our_buffer, our_client, our_connect,
    our_dereg_mr, our_disconnect, our_fill, our_post_send, our_reg_mr, our_rkey, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_mr, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wr_opcode};

const TEXT: &str = "hello, RDMA";

/// Sends the whole of the buffer, and comes back when it has been sent.
fn send_text(conn: &OurControl, buffer: &CArray<u8>, mr: *mut ibv_mr) -> OurResult {
    let mut sge =
        ibv_sge { addr: buffer.addr() as u64, length: buffer.len() as u32, lkey: our_rkey(mr) };

    let mut wr: ibv_send_wr = zeroed();
    wr.sg_list = &mut sge;
    wr.num_sge = 1;
    wr.opcode = ibv_wr_opcode::IBV_WR_SEND;
    wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
    our_post_send(conn, &mut wr)?;

    our_await_completion(conn)?;
    Ok(())
}

fn run() -> OurResult {
    // an id, the server's address, the route to it, and a queue pair
    let mut conn = our_client(OurOptions { message: "client", ..OurOptions::default() })?;

    // memory with the text in it, which the adapter may read
    let buffer = our_buffer(&conn, TEXT.len())?;
    our_fill(&buffer, TEXT);
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags(0))?;

    our_connect(&mut conn, &[])?;
    send_text(&conn, &buffer, mr)?;
    our_disconnect(&mut conn)?;

    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
