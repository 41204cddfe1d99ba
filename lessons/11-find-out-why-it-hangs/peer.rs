//! The server: takes a question and answers it.

use std::process::ExitCode;

use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_accept, our_await_completion, our_await_disconnect, our_buffer, our_dereg_mr,
    our_disconnect, our_fill, our_post_recv, our_post_send, our_reg_mr, our_server,
    our_setup_recv_wr, our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::ibv_access_flags;

fn serve() -> OurResult {
    let mut conn = our_server(OurOptions { message: "peer", ..OurOptions::default() })?;
    let question = our_buffer(&conn, 32)?;
    let question_mr = our_reg_mr(&conn, &question, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    let answer = our_buffer(&conn, 32)?;
    our_fill(&answer, "forty-two");
    let answer_mr = our_reg_mr(&conn, &answer, ibv_access_flags(0))?;
    our_post_recv(&conn, &mut our_setup_recv_wr(&mut [our_setup_sge(&question, question_mr)]))?;
    our_accept(&mut conn, &[])?;

    our_await_completion(&conn)?;
    our_post_send(&conn, &mut our_setup_send_wr(&mut [our_setup_sge(&answer, answer_mr)]))?;
    our_await_completion(&conn)?;

    our_await_disconnect(&conn)?;
    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, question_mr)?;
    our_dereg_mr(&conn, answer_mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
