//! The server: lets its page be read, and compares what it is sent.

use std::process::ExitCode;

use common::memory::c_text;
use common::utilities::{OurResult, Reported, exit_code};
use common::{errln, outln};
use kit::{
    OurOptions, our_accept, our_await_completion, our_buffer, our_dereg_mr, our_disconnect,
    our_fill, our_post_recv, our_reg_mr, our_remote_data, our_server, our_setup_recv_wr,
    our_setup_sge, our_unsetup,
};
use rdma_sys::ibv_access_flags;

const TEXT: &str = "to be read, and sent";

fn serve() -> OurResult {
    let mut conn = our_server(OurOptions { message: "peer", ..OurOptions::default() })?;
    let note = our_buffer(&conn, 64)?;
    let note_mr = our_reg_mr(&conn, &note, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    let page = our_buffer(&conn, TEXT.len())?;
    our_fill(&page, TEXT);
    let page_mr = our_reg_mr(&conn, &page, ibv_access_flags::IBV_ACCESS_REMOTE_READ)?;
    our_post_recv(&conn, &mut our_setup_recv_wr(&mut [our_setup_sge(&note, note_mr)]))?;
    our_accept(&mut conn, &our_remote_data(&page, page_mr))?;

    our_await_completion(&conn)?;
    let text = c_text(&note);
    outln!("sent back: {text:?}");

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, page_mr)?;
    our_dereg_mr(&conn, note_mr)?;
    our_unsetup(&mut conn)?;
    if text != TEXT {
        errln!("peer: this is not {TEXT:?}");
        return Err(Reported);
    }
    Ok(())
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
