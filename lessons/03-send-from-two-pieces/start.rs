//! A client that sends a header and data, which are in two pieces of memory, as one message.

use std::process::ExitCode;

use common::memory::zeroed;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_await_completion, our_buffer, our_client, our_connect, our_dereg_mr,
    our_disconnect, our_fill, our_post_send, our_reg_mr, our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_send_flags, ibv_send_wr, ibv_wr_opcode};

const HEADER: &str = "HEADER: ";
const DATA: &str = "and the data behind it";

fn run() -> OurResult {
    let mut conn = our_client(OurOptions { message: "client", ..OurOptions::default() })?;

    let header = our_buffer(&conn, HEADER.len())?;
    our_fill(&header, HEADER);
    let header_mr = our_reg_mr(&conn, &header, ibv_access_flags(0))?;
    let data = our_buffer(&conn, DATA.len())?;
    our_fill(&data, DATA);
    let data_mr = our_reg_mr(&conn, &data, ibv_access_flags(0))?;

    our_connect(&mut conn, &[])?;

    // To do: one message, not two.
    for (piece, mr) in [(&header, header_mr), (&data, data_mr)] {
        let mut sge = our_setup_sge(piece, mr);
        let mut wr: ibv_send_wr = zeroed();
        wr.sg_list = &mut sge;
        wr.num_sge = 1;
        wr.opcode = ibv_wr_opcode::IBV_WR_SEND;
        wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
        our_post_send(&conn, &mut wr)?;
        our_await_completion(&conn)?;
    }

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, data_mr)?;
    our_dereg_mr(&conn, header_mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
