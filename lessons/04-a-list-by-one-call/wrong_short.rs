//! Wrong. The coach says: only 3 sends were posted

use std::process::ExitCode;

use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_await_completion, our_buffer, our_client, our_connect, our_dereg_mr,
    our_disconnect, our_fill, our_post_send, our_reg_mr, our_setup_send_wr, our_setup_sge,
    our_unsetup,
};
use rdma_sys::ibv_access_flags;

const TEXTS: [&str; 4] = ["one", "two", "three", "four"];

fn run() -> OurResult {
    let mut conn = our_client(OurOptions { message: "client", ..OurOptions::default() })?;
    let mut buffers = Vec::new();
    for text in TEXTS {
        let buffer = our_buffer(&conn, text.len())?;
        our_fill(&buffer, text);
        let mr = our_reg_mr(&conn, &buffer, ibv_access_flags(0))?;
        buffers.push((buffer, mr));
    }
    our_connect(&mut conn, &[])?;

    // each of the requests points at an element of its own
    let mut sges: Vec<_> =
        buffers.iter().map(|(buffer, mr)| [our_setup_sge(buffer, *mr)]).collect();
    let mut wrs: Vec<_> = sges.iter_mut().map(|sges| our_setup_send_wr(sges)).collect();

    // each leads to the next one, the last to none
    for at in 2..wrs.len() {
        wrs[at - 1].next = &mut wrs[at];
    }
    our_post_send(&conn, &mut wrs[1])?;
    for _ in &wrs[1..] {
        our_await_completion(&conn)?;
    }

    our_disconnect(&mut conn)?;
    for (_, mr) in &buffers {
        our_dereg_mr(&conn, *mr)?;
    }
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
