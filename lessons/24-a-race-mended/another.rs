//! A client that reads the server's page, and sends back what it has read.

use std::process::ExitCode;

use common::memory::CArray;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_await_completion, our_buffer, our_client, our_connect,
    our_dereg_mr, our_disconnect, our_post_send, our_reg_mr, our_remote, our_setup_send_wr,
    our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_mr, ibv_wr_opcode};

/// Bytes of the page.
const LENGTH: usize = 20;

/// Reads from `address` in the server's memory, which has this key there, and sends what was read.
fn read_and_send(
    conn: &OurControl,
    page: &CArray<u8>,
    mr: *mut ibv_mr,
    (address, rkey): (u64, u32),
) -> OurResult {
    let mut sges = [our_setup_sge(page, mr)];
    let mut read = our_setup_send_wr(&mut sges);
    read.opcode = ibv_wr_opcode::IBV_WR_RDMA_READ;
    read.wr.rdma.remote_addr = address;
    read.wr.rdma.rkey = rkey;
    our_post_send(conn, &mut read)?;
    // the bytes that it has brought are there when its completion is
    our_await_completion(conn)?;
    our_post_send(conn, &mut our_setup_send_wr(&mut sges))?;
    our_await_completion(conn)?;
    Ok(())
}

fn run() -> OurResult {
    let mut conn = our_client(OurOptions { message: "client", ..OurOptions::default() })?;
    let page = our_buffer(&conn, LENGTH)?;
    let mr = our_reg_mr(&conn, &page, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    our_connect(&mut conn, &[])?;

    // the server has said in its private data where its memory is
    let remote = our_remote(&conn.peer_data);
    read_and_send(&conn, &page, mr, remote)?;

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
