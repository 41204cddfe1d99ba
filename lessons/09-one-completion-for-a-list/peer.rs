//! The server: takes 32 messages.

use std::process::ExitCode;

use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_accept, our_await_completion, our_buffer, our_dereg_mr, our_disconnect,
    our_post_recv, our_reg_mr, our_server, our_setup_recv_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::ibv_access_flags;

const MESSAGES: u32 = 32;

fn serve() -> OurResult {
    let options =
        OurOptions { message: "peer", recv_queue_depth: MESSAGES, ..OurOptions::default() };
    let mut conn = our_server(options)?;
    let buffer = our_buffer(&conn, 8 * MESSAGES as usize)?;
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    for place in 0..u64::from(MESSAGES) {
        let mut sge = our_setup_sge(&buffer, mr);
        sge.addr += 8 * place;
        sge.length = 8;
        our_post_recv(&conn, &mut our_setup_recv_wr(&mut [sge]))?;
    }
    our_accept(&mut conn, &[])?;
    for _ in 0..MESSAGES {
        our_await_completion(&conn)?;
    }
    outln!("{MESSAGES} messages have come");
    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
