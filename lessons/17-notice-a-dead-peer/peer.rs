//! The server: sends messages, takes the answers, and dies before all are sent.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use common::errln;
use common::memory::c_text;
use common::utilities::{OurResult, Reported, exit_code};
use kit::{
    OurControl, OurOptions, our_accept, our_await_completion, our_buffer, our_fill, our_post_recv,
    our_post_send, our_reg_mr, our_server, our_setup_recv_wr, our_setup_send_wr, our_setup_sge,
};
use rdma_sys::{ibv_access_flags, ibv_wc_opcode};

/// Receives that are posted; an empty message uses one as well.
const RECEIVES: u32 = 64;
/// The messages that are sent, each with the milliseconds before it.
const MESSAGES: [(&str, u64); 4] = [("one", 0), ("two", 0), ("three", 20), ("four", 700)];

/// The bytes of the next message that has some.
fn await_answer(conn: &OurControl) -> OurResult<u32> {
    loop {
        let work_completion = our_await_completion(conn)?;
        let is_message = work_completion.opcode == ibv_wc_opcode::IBV_WC_RECV;
        if is_message && work_completion.byte_len > 0 {
            return Ok(work_completion.byte_len);
        }
    }
}

fn serve() -> OurResult {
    let options =
        OurOptions { message: "peer", recv_queue_depth: RECEIVES, ..OurOptions::default() };
    let mut conn = our_server(options)?;
    let text = our_buffer(&conn, 8)?;
    let text_mr = our_reg_mr(&conn, &text, ibv_access_flags(0))?;
    let answer = our_buffer(&conn, 8)?;
    let answer_mr = our_reg_mr(&conn, &answer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    for _ in 0..RECEIVES {
        our_post_recv(&conn, &mut our_setup_recv_wr(&mut [our_setup_sge(&answer, answer_mr)]))?;
    }
    our_accept(&mut conn, &[])?;

    for (message, pause) in MESSAGES {
        thread::sleep(Duration::from_millis(pause));
        text.iter().for_each(|cell| cell.set(0));
        our_fill(&text, message);
        our_post_send(&conn, &mut our_setup_send_wr(&mut [our_setup_sge(&text, text_mr)]))?;
        let length = await_answer(&conn)?;
        let said = c_text(&answer[..length as usize]);
        if said != message {
            errln!("peer: {message:?} was answered with {said:?}");
            return Err(Reported);
        }
    }
    thread::sleep(Duration::from_millis(100));
    // SAFETY: a signal to this process itself, which does not live on.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    Err(Reported)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
