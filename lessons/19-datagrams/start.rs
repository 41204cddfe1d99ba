//! A server that takes a datagram, and sends its bytes back to where they have come from.

use std::process::ExitCode;

use common::memory::{CArray, c_text};
use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_accept, our_await_completion, our_buffer, our_datagram_server,
    our_dereg_mr, our_post_recv, our_reg_mr, our_setup_recv_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_mr, ibv_wc};

/// Bytes of a datagram, at most.
const LENGTH: usize = 64;

/// Sends the datagram in the buffer back to where it has come from.
fn answer(
    _conn: &OurControl,
    _buffer: &CArray<u8>,
    _mr: *mut ibv_mr,
    _work_completion: &mut ibv_wc,
) -> OurResult {
    // To do: an address handle (on the port OUR_IB_PORT), and a send whose wr.wr.ud has it, the number of
    // the sender's queue pair and the Q_Key. Destroy the handle when the send is done.
    Ok(())
}

fn serve() -> OurResult {
    // listens until a client asks, and creates a queue pair for datagrams
    let mut conn = our_datagram_server(OurOptions { message: "server", ..OurOptions::default() })?;
    let buffer = our_buffer(&conn, LENGTH)?;
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    our_post_recv(&conn, &mut our_setup_recv_wr(&mut [our_setup_sge(&buffer, mr)]))?;
    // tells the client the queue pair's number
    our_accept(&mut conn, &[])?;

    let mut work_completion = our_await_completion(&conn)?;
    outln!("{}", c_text(&buffer));
    answer(&conn, &buffer, mr, &mut work_completion)?;

    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
