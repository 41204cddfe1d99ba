//! A client that connects, sends one message and hangs up.

use std::process::ExitCode;

use common::memory::CArray;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_buffer, our_client, our_connect, our_dereg_mr, our_disconnect,
    our_fill, our_reg_mr, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_mr};

const TEXT: &str = "hello, RDMA";

/// Sends the whole of the buffer, and comes back when it has been sent.
fn send_text(_conn: &OurControl, _buffer: &CArray<u8>, _mr: *mut ibv_mr) -> OurResult {
    // To do: fill in an `ibv_sge` and an `ibv_send_wr`, post it with `our_post_send`, and wait for its
    // completion with `our_await_completion`.
    Ok(())
}

fn run() -> OurResult {
    // an id, the server's address, the route to it, and a queue pair
    let mut conn = our_client(OurOptions { message: "client", ..OurOptions::default() })?;

    // memory with the text in it, which the adapter may read
    let buffer = our_buffer(&conn, TEXT.len())?;
    our_fill(&buffer, TEXT);
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags(0))?;

    our_connect(&mut conn, &[])?;
    send_text(&conn, &buffer, mr)?;
    our_disconnect(&mut conn)?;

    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
