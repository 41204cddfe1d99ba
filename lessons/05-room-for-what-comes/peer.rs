//! The client: says in the private data of its request how long its message will be, and sends it.

use std::process::ExitCode;

use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_await_completion, our_buffer, our_client, our_connect, our_dereg_mr,
    our_disconnect, our_post_send, our_reg_mr, our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::ibv_access_flags;

fn run() -> OurResult {
    let mut conn = our_client(OurOptions { message: "peer", ..OurOptions::default() })?;
    // another length in every run
    let length = 3000 + std::process::id() % 1000;
    let buffer = our_buffer(&conn, length as usize)?;
    buffer.iter().for_each(|byte| byte.set(b'x'));
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags(0))?;

    our_connect(&mut conn, &length.to_be_bytes())?;
    our_post_send(&conn, &mut our_setup_send_wr(&mut [our_setup_sge(&buffer, mr)]))?;
    our_await_completion(&conn)?;
    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
