//! The client: sends header and data as one message, whose data have another length in every run.

use std::process::ExitCode;

use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_await_completion, our_buffer, our_client, our_connect, our_dereg_mr,
    our_disconnect, our_fill, our_post_send, our_reg_mr, our_setup_send_wr, our_setup_sge,
    our_unsetup,
};
use rdma_sys::ibv_access_flags;

const HEADER: &str = "HEADER: ";

fn run() -> OurResult {
    let mut conn = our_client(OurOptions { message: "peer", ..OurOptions::default() })?;
    let length = 100 + std::process::id() as usize % 100;
    let message = our_buffer(&conn, HEADER.len() + length)?;
    message.iter().for_each(|byte| byte.set(b'x'));
    our_fill(&message, HEADER);
    let mr = our_reg_mr(&conn, &message, ibv_access_flags(0))?;

    our_connect(&mut conn, &[])?;
    our_post_send(&conn, &mut our_setup_send_wr(&mut [our_setup_sge(&message, mr)]))?;
    our_await_completion(&conn)?;
    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
