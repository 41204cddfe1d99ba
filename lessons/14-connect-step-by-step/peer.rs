//! The server: has a receive posted, and takes one message.

use std::process::ExitCode;

use common::memory::c_text;
use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_accept, our_await_completion, our_await_disconnect, our_buffer, our_dereg_mr,
    our_disconnect, our_post_recv, our_reg_mr, our_server, our_setup_recv_wr, our_setup_sge,
    our_unsetup,
};
use rdma_sys::ibv_access_flags;

fn serve() -> OurResult {
    let mut conn = our_server(OurOptions { message: "peer", ..OurOptions::default() })?;
    let buffer = our_buffer(&conn, 64)?;
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    our_post_recv(&conn, &mut our_setup_recv_wr(&mut [our_setup_sge(&buffer, mr)]))?;
    our_accept(&mut conn, &[])?;

    our_await_completion(&conn)?;
    outln!("a message has come: {:?}", c_text(&buffer));

    our_await_disconnect(&conn)?;
    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
