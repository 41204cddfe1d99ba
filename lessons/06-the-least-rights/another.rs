//! Right, otherwise: three regions, for the request goes inline.

use std::process::ExitCode;

use common::memory::c_text;
use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_await_completion, our_buffer, our_client, our_connect, our_dereg_mr,
    our_disconnect, our_fill, our_post_recv, our_post_send, our_reg_mr, our_remote_data,
    our_setup_recv_wr, our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_send_flags, ibv_sge};

fn run() -> OurResult {
    let mut conn =
        our_client(OurOptions { message: "client", max_inline_data: 16, ..OurOptions::default() })?;

    let request = our_buffer(&conn, 16)?;
    let answer = our_buffer(&conn, 64)?;
    let board = our_buffer(&conn, 32)?;
    let slot = our_buffer(&conn, 32)?;
    our_fill(&request, "ready");
    our_fill(&board, "for everybody to read");

    let answer_mr = our_reg_mr(&conn, &answer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    let board_mr = our_reg_mr(&conn, &board, ibv_access_flags::IBV_ACCESS_REMOTE_READ)?;
    let slot_mr = our_reg_mr(
        &conn,
        &slot,
        ibv_access_flags::IBV_ACCESS_LOCAL_WRITE | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE,
    )?;

    our_post_recv(&conn, &mut our_setup_recv_wr(&mut [our_setup_sge(&answer, answer_mr)]))?;

    // tells the peer where board and slot are, and by which keys
    let places = [our_remote_data(&board, board_mr), our_remote_data(&slot, slot_mr)].concat();
    our_connect(&mut conn, &places)?;
    // an inline message needs no region at all
    let mut sges = [ibv_sge { addr: request.addr() as u64, length: 16, lkey: 0 }];
    let mut wr = our_setup_send_wr(&mut sges);
    wr.send_flags |= ibv_send_flags::IBV_SEND_INLINE.0;
    our_post_send(&conn, &mut wr)?;
    // of the send, and of the receive
    our_await_completion(&conn)?;
    our_await_completion(&conn)?;
    outln!("in the slot: {:?}", c_text(&slot));

    our_disconnect(&mut conn)?;
    for mr in [answer_mr, board_mr, slot_mr] {
        our_dereg_mr(&conn, mr)?;
    }
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
