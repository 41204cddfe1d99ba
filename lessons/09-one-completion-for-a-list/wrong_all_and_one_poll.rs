//! Wrong. The coach says: of the 4 sends of a list are signaled

use std::process::ExitCode;

use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_await_completion, our_buffer, our_client, our_connect, our_dereg_mr,
    our_disconnect, our_post_send, our_reg_mr, our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::ibv_access_flags;

const LISTS: usize = 8;
const OF_A_LIST: usize = 4;

fn run() -> OurResult {
    let mut conn = our_client(OurOptions { message: "client", ..OurOptions::default() })?;
    let buffer = our_buffer(&conn, 8)?;
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags(0))?;
    our_connect(&mut conn, &[])?;

    let mut sges = [our_setup_sge(&buffer, mr)];
    let mut wrs: Vec<_> = (0..OF_A_LIST).map(|_| our_setup_send_wr(&mut sges)).collect();
    for at in 1..OF_A_LIST {
        wrs[at - 1].next = &mut wrs[at];
    }
    // the others' completions are for nobody
    for _ in 0..LISTS {
        our_post_send(&conn, &mut wrs[0])?;
        our_await_completion(&conn)?;
    }

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
