//! The server: reads from the client's board, writes into its slot, and then says so.

use std::process::ExitCode;

use common::memory::c_text;
use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_accept, our_await_completion, our_buffer, our_dereg_mr, our_disconnect,
    our_fill, our_post_recv, our_post_send, our_reg_mr, our_remote, our_server, our_setup_recv_wr,
    our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_wr_opcode};

fn serve() -> OurResult {
    let mut conn = our_server(OurOptions { message: "peer", ..OurOptions::default() })?;
    let (board, slot) = (our_remote(&conn.peer_data), our_remote(&conn.peer_data[12..]));
    let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
    let (request, page, text) =
        (our_buffer(&conn, 16)?, our_buffer(&conn, 32)?, our_buffer(&conn, 32)?);
    our_fill(&text, "written by the peer");
    let request_mr = our_reg_mr(&conn, &request, access)?;
    let page_mr = our_reg_mr(&conn, &page, access)?;
    let text_mr = our_reg_mr(&conn, &text, ibv_access_flags(0))?;
    let mut sges = [our_setup_sge(&request, request_mr)];
    our_post_recv(&conn, &mut our_setup_recv_wr(&mut sges))?;
    our_accept(&mut conn, &[])?;

    // the client says that its memory is ready
    our_await_completion(&conn)?;
    for (opcode, remote, sge) in [
        (ibv_wr_opcode::IBV_WR_RDMA_READ, board, our_setup_sge(&page, page_mr)),
        (ibv_wr_opcode::IBV_WR_RDMA_WRITE, slot, our_setup_sge(&text, text_mr)),
    ] {
        let mut sges = [sge];
        let mut wr = our_setup_send_wr(&mut sges);
        wr.opcode = opcode;
        (wr.wr.rdma.remote_addr, wr.wr.rdma.rkey) = remote;
        our_post_send(&conn, &mut wr)?;
        our_await_completion(&conn)?;
    }
    outln!("on the board: {:?}", c_text(&page));
    our_post_send(&conn, &mut our_setup_send_wr(&mut [our_setup_sge(&text, text_mr)]))?;
    our_await_completion(&conn)?;

    our_disconnect(&mut conn)?;
    for mr in [request_mr, page_mr, text_mr] {
        our_dereg_mr(&conn, mr)?;
    }
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
