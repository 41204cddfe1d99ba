//! A server that takes a message of header and data, and has them in two pieces of memory.

use std::process::ExitCode;

use common::memory::c_text;
use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_accept, our_await_completion, our_buffer, our_dereg_mr, our_disconnect,
    our_post_recv, our_reg_mr, our_server, our_setup_recv_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::ibv_access_flags;

/// Bytes of the header.
const HEADER: usize = 8;
/// Bytes of the data, at most.
const DATA: usize = 200;

fn serve() -> OurResult {
    let mut conn = our_server(OurOptions { message: "server", ..OurOptions::default() })?;
    let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;

    let header = our_buffer(&conn, HEADER)?;
    let header_mr = our_reg_mr(&conn, &header, access)?;
    let data = our_buffer(&conn, DATA)?;
    let data_mr = our_reg_mr(&conn, &data, access)?;

    // filled in this order, each to its end before the next begins
    let mut sges = [our_setup_sge(&header, header_mr), our_setup_sge(&data, data_mr)];
    our_post_recv(&conn, &mut our_setup_recv_wr(&mut sges))?;
    our_accept(&mut conn, &[])?;

    let length = our_await_completion(&conn)?.byte_len as usize;
    outln!("{:?} and {} bytes behind it", c_text(&header), length.saturating_sub(HEADER));

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, data_mr)?;
    our_dereg_mr(&conn, header_mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
