//! A server that takes one message, whose length the client has said.

use std::process::ExitCode;

use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_accept, our_await_completion, our_buffer, our_dereg_mr, our_disconnect,
    our_post_recv, our_reg_mr, our_server, our_setup_recv_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::ibv_access_flags;

fn serve() -> OurResult {
    let mut conn = our_server(OurOptions { message: "server", ..OurOptions::default() })?;

    // most significant byte first
    let length =
        conn.peer_data.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes)) as usize;

    let buffer = our_buffer(&conn, length)?;
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    let sge = our_setup_sge(&buffer, mr);
    our_post_recv(&conn, &mut our_setup_recv_wr(&mut [sge]))?;
    our_accept(&mut conn, &[])?;

    let work_completion = our_await_completion(&conn)?;
    outln!("a message of {} bytes has come", work_completion.byte_len);

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
