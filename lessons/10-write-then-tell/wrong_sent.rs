//! Wrong. The coach says: the text was sent, not written

use std::process::ExitCode;

use common::memory::CArray;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_await_completion, our_buffer, our_client, our_connect,
    our_dereg_mr, our_disconnect, our_fill, our_post_send, our_reg_mr, our_remote,
    our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_mr};

const TEXT: &str = "written from elsewhere";

/// Writes the text to `address` in the server's memory, which has this key there, and then tells it.
fn write_and_tell(
    conn: &OurControl,
    text: &CArray<u8>,
    mr: *mut ibv_mr,
    (address, rkey): (u64, u32),
) -> OurResult {
    let _ = (address, rkey);
    our_post_send(conn, &mut our_setup_send_wr(&mut [our_setup_sge(text, mr)]))?;
    our_await_completion(conn)?;
    Ok(())
}

fn run() -> OurResult {
    let mut conn = our_client(OurOptions { message: "client", ..OurOptions::default() })?;
    let text = our_buffer(&conn, TEXT.len())?;
    our_fill(&text, TEXT);
    let mr = our_reg_mr(&conn, &text, ibv_access_flags(0))?;
    our_connect(&mut conn, &[])?;

    // the server has said in its private data where its memory is
    let remote = our_remote(&conn.peer_data);
    write_and_tell(&conn, &text, mr, remote)?;

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
