//! Right, otherwise: the text goes inline, which needs no region here.

use std::process::ExitCode;

use common::memory::CArray;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_await_completion, our_buffer, our_client, our_connect,
    our_disconnect, our_fill, our_post_send, our_remote, our_setup_send_wr, our_unsetup,
};
use rdma_sys::{ibv_send_flags, ibv_sge, ibv_wr_opcode};

const TEXT: &str = "written and told at once";

/// Writes the text to `address` in the server's memory, which has this key there, and tells its length.
fn write_and_tell(conn: &OurControl, text: &CArray<u8>, (address, rkey): (u64, u32)) -> OurResult {
    let length = text.len() as u32;
    let mut sges = [ibv_sge { addr: text.addr() as u64, length, lkey: 0 }];
    let mut wr = our_setup_send_wr(&mut sges);
    wr.send_flags |= ibv_send_flags::IBV_SEND_INLINE.0;
    wr.opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = rkey;
    wr.imm_data_invalidated_rkey_union.imm_data = u32::from_ne_bytes(length.to_be_bytes());
    our_post_send(conn, &mut wr)?;
    our_await_completion(conn)?;
    Ok(())
}

fn run() -> OurResult {
    let options = OurOptions {
        message: "client",
        max_inline_data: TEXT.len() as u32,
        ..OurOptions::default()
    };
    let mut conn = our_client(options)?;
    let text = our_buffer(&conn, TEXT.len())?;
    our_fill(&text, TEXT);
    our_connect(&mut conn, &[])?;

    // the server has said in its private data where its memory is
    let remote = our_remote(&conn.peer_data);
    write_and_tell(&conn, &text, remote)?;

    our_disconnect(&mut conn)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
