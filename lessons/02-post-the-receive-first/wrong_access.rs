//! Wrong. The coach says: needs IBV_ACCESS_LOCAL_WRITE

use std::process::ExitCode;

use common::memory::{c_text, zeroed};
use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_accept, our_await_completion, our_buffer, our_dereg_mr, our_disconnect,
    our_post_recv, our_reg_mr, our_server, our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_recv_wr};

fn serve() -> OurResult {
    // listens until a client calls, and gives the new id a queue pair
    let mut conn = our_server(OurOptions { message: "server", ..OurOptions::default() })?;

    let buffer = our_buffer(&conn, 64)?;
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags(0))?;
    let mut sge = our_setup_sge(&buffer, mr);
    let mut wr: ibv_recv_wr = zeroed();
    wr.sg_list = &mut sge;
    wr.num_sge = 1;
    our_post_recv(&conn, &mut wr)?;

    // there is a connection from here on
    our_accept(&mut conn, &[])?;

    let work_completion = our_await_completion(&conn)?;
    outln!("{}", c_text(&buffer[..work_completion.byte_len as usize]));

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
