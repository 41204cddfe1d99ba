//! The client: sends its message as soon as there is a connection.

use std::process::ExitCode;

use common::memory::zeroed;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_await_completion, our_buffer, our_client, our_connect, our_dereg_mr,
    our_disconnect, our_fill, our_post_send, our_reg_mr, our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_send_flags, ibv_send_wr, ibv_wr_opcode};

const TEXT: &str = "a message that does not wait for anybody";

fn run() -> OurResult {
    let mut conn = our_client(OurOptions { message: "peer", ..OurOptions::default() })?;
    let buffer = our_buffer(&conn, TEXT.len())?;
    our_fill(&buffer, TEXT);
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags(0))?;
    let mut sge = our_setup_sge(&buffer, mr);
    let mut wr: ibv_send_wr = zeroed();
    wr.sg_list = &mut sge;
    wr.num_sge = 1;
    wr.opcode = ibv_wr_opcode::IBV_WR_SEND;
    wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;

    our_connect(&mut conn, &[])?;
    our_post_send(&conn, &mut wr)?;
    our_await_completion(&conn)?;
    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
