//! A client that writes a text into the server's memory, and tells its length by the same request.

use std::process::ExitCode;

use common::memory::CArray;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_await_completion, our_buffer, our_client, our_connect,
    our_dereg_mr, our_disconnect, our_fill, our_post_send, our_reg_mr, our_remote,
    our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_mr, ibv_wr_opcode};

const TEXT: &str = "written and told at once";

/// Writes the text to `address` in the server's memory, which has this key there, and tells its length.
fn write_and_tell(
    conn: &OurControl,
    text: &CArray<u8>,
    mr: *mut ibv_mr,
    (address, rkey): (u64, u32),
) -> OurResult {
    let mut sges = [our_setup_sge(text, mr)];
    let mut wr = our_setup_send_wr(&mut sges);
    wr.opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = rkey;
    // nobody converts it: the sender and the receiver have to agree on a byte order
    wr.imm_data_invalidated_rkey_union.imm_data = (text.len() as u32).to_be();
    our_post_send(conn, &mut wr)?;
    our_await_completion(conn)?;
    Ok(())
}

fn run() -> OurResult {
    let mut conn = our_client(OurOptions { message: "client", ..OurOptions::default() })?;
    let text = our_buffer(&conn, TEXT.len())?;
    our_fill(&text, TEXT);
    let mr = our_reg_mr(&conn, &text, ibv_access_flags(0))?;
    our_connect(&mut conn, &[])?;

    // the server has said in its private data where its memory is
    let remote = our_remote(&conn.peer_data);
    write_and_tell(&conn, &text, mr, remote)?;

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
