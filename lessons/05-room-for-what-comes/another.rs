//! Right, otherwise: the region is larger than the message, and the receive has two elements.

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

    // a page more for what else may come
    let buffer = our_buffer(&conn, length + 4096)?;
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    let mut sges = [our_setup_sge(&buffer, mr), our_setup_sge(&buffer, mr)];
    sges[0].length = 100;
    sges[1].addr += 100;
    sges[1].length = length as u32 - 100;
    our_post_recv(&conn, &mut our_setup_recv_wr(&mut sges))?;
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
