//! Wrong. The coach says: is used for more than one thing

use std::process::ExitCode;

use common::memory::c_text;
use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_await_completion, our_buffer, our_client, our_connect, our_dereg_mr,
    our_disconnect, our_fill, our_lkey, our_post_recv, our_post_send, our_reg_mr, our_rkey,
    our_setup_recv_wr, our_setup_send_wr, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_sge};

const EVERYTHING: ibv_access_flags = ibv_access_flags(
    ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0
        | ibv_access_flags::IBV_ACCESS_REMOTE_READ.0
        | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0
        | ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC.0,
);

fn run() -> OurResult {
    let mut conn = our_client(OurOptions { message: "client", ..OurOptions::default() })?;

    // one region for all
    let all = our_buffer(&conn, 144)?;
    our_fill(&all, "ready");
    all[80..].iter().zip("for everybody to read".bytes()).for_each(|(cell, byte)| cell.set(byte));
    let mr = our_reg_mr(&conn, &all, EVERYTHING)?;
    let at =
        |from: u64, length| ibv_sge { addr: all.addr() as u64 + from, length, lkey: our_lkey(mr) };
    let place = |from| {
        let address: u64 = at(from, 0).addr;
        [&address.to_be_bytes()[..], &our_rkey(mr).to_be_bytes()].concat()
    };

    our_post_recv(&conn, &mut our_setup_recv_wr(&mut [at(16, 64)]))?;

    // tells the peer where board and slot are, and by which keys
    let places = [place(80), place(112)].concat();
    our_connect(&mut conn, &places)?;
    our_post_send(&conn, &mut our_setup_send_wr(&mut [at(0, 16)]))?;
    // of the send, and of the receive
    our_await_completion(&conn)?;
    our_await_completion(&conn)?;
    outln!("in the slot: {:?}", c_text(&all[112..]));

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
