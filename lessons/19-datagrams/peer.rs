//! The client: asks where the server's queue pair is, sends a datagram there and waits for its bytes.

use std::process::ExitCode;

use common::memory::c_text;
use common::utilities::{OurResult, Reported, exit_code};
use common::{errln, outln};
use kit::{
    OurOptions, our_ask, our_await_completion, our_buffer, our_create_ah, our_datagram_client,
    our_dereg_mr, our_destroy_ah, our_fill, our_post_recv, our_post_send, our_reg_mr,
    our_setup_recv_wr, our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_grh, ibv_wc_opcode};

/// Bytes of a datagram, at most.
const LENGTH: usize = 64;
/// Bytes of the global routing header.
const GRH: usize = size_of::<ibv_grh>();

fn run() -> OurResult {
    let mut conn = our_datagram_client(OurOptions { message: "peer", ..OurOptions::default() })?;
    // longer than the header, and another one in every run
    let number = std::process::id();
    let text =
        format!("{:.<1$}", format!("a datagram, number {number}"), 45 + number as usize % 20);
    let question = our_buffer(&conn, text.len().min(LENGTH))?;
    our_fill(&question, &text);
    let question_mr = our_reg_mr(&conn, &question, ibv_access_flags(0))?;
    // has room for one that is too long
    let answer = our_buffer(&conn, GRH + 2 * LENGTH)?;
    let answer_mr = our_reg_mr(&conn, &answer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    our_post_recv(&conn, &mut our_setup_recv_wr(&mut [our_setup_sge(&answer, answer_mr)]))?;

    let mut server = our_ask(&mut conn)?;
    let ah = our_create_ah(&conn, &mut server.ah_attr)?;
    let mut sges = [our_setup_sge(&question, question_mr)];
    let mut wr = our_setup_send_wr(&mut sges);
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = server.qp_num;
    wr.wr.ud.remote_qkey = server.qkey;
    our_post_send(&conn, &mut wr)?;
    // of the send, and of the receive
    let mut length = 0;
    for _ in 0..2 {
        let work_completion = our_await_completion(&conn)?;
        if work_completion.opcode == ibv_wc_opcode::IBV_WC_RECV {
            length = work_completion.byte_len as usize - GRH;
        }
    }
    let answer_text = c_text(&answer[GRH..GRH + length]);
    outln!("an answer has come: {answer_text:?}");

    our_destroy_ah(&conn, ah)?;
    our_dereg_mr(&conn, question_mr)?;
    our_dereg_mr(&conn, answer_mr)?;
    our_unsetup(&mut conn)?;
    if answer_text != text || length != text.len() {
        errln!("peer: the answer has {length} bytes, and they are not those of the datagram");
        return Err(Reported);
    }
    Ok(())
}

pub fn main() -> ExitCode {
    exit_code(run())
}
