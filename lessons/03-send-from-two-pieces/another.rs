//! Right, otherwise: header and data are in one region, at places of their own.

use std::process::ExitCode;

use common::memory::zeroed;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_await_completion, our_buffer, our_client, our_connect, our_dereg_mr,
    our_disconnect, our_fill, our_lkey, our_post_send, our_reg_mr, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wr_opcode};

const HEADER: &str = "HEADER: ";
const DATA: &str = "and the data behind it";

fn run() -> OurResult {
    let mut conn = our_client(OurOptions { message: "client", ..OurOptions::default() })?;

    // the data at the beginning, the header behind it
    let both = our_buffer(&conn, 200)?;
    our_fill(&both, DATA);
    both[100..].iter().zip(HEADER.bytes()).for_each(|(cell, byte)| cell.set(byte));
    let mr = our_reg_mr(&conn, &both, ibv_access_flags(0))?;

    our_connect(&mut conn, &[])?;

    // one region, one key, and two places in it
    let mut sges = [
        ibv_sge { addr: both.addr() as u64 + 100, length: HEADER.len() as u32, lkey: our_lkey(mr) },
        ibv_sge { addr: both.addr() as u64, length: DATA.len() as u32, lkey: our_lkey(mr) },
    ];
    let mut wr: ibv_send_wr = zeroed();
    wr.sg_list = sges.as_mut_ptr();
    wr.num_sge = sges.len() as i32;
    wr.opcode = ibv_wr_opcode::IBV_WR_SEND;
    wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
    our_post_send(&conn, &mut wr)?;
    our_await_completion(&conn)?;

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
