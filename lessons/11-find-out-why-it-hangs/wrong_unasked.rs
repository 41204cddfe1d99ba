//! Wrong. The coach says: it hangs

use std::process::ExitCode;

use common::memory::c_text;
use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_ack_cq_events, our_await_completion, our_buffer, our_client, our_connect,
    our_dereg_mr, our_disconnect, our_fill, our_get_cq_event, our_post_recv, our_reg_mr,
    our_req_notify_cq, our_setup_recv_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::ibv_access_flags;

fn run() -> OurResult {
    let options = OurOptions { message: "client", with_channel: true, ..OurOptions::default() };
    let mut conn = our_client(options)?;
    let question = our_buffer(&conn, 32)?;
    our_fill(&question, "six times seven?");
    let question_mr = our_reg_mr(&conn, &question, ibv_access_flags(0))?;
    let answer = our_buffer(&conn, 32)?;
    let answer_mr = our_reg_mr(&conn, &answer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    our_post_recv(&conn, &mut our_setup_recv_wr(&mut [our_setup_sge(&answer, answer_mr)]))?;
    our_connect(&mut conn, &[])?;

    our_req_notify_cq(&conn, false)?;
    our_get_cq_event(&conn)?;
    our_ack_cq_events(&conn, 1);
    // of the send, and of the receive
    our_await_completion(&conn)?;
    our_await_completion(&conn)?;
    outln!("{}", c_text(&answer));

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, question_mr)?;
    our_dereg_mr(&conn, answer_mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
