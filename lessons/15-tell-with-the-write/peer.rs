//! The server: gives access to its page, and is told by the write how much is there.

use std::process::ExitCode;

use common::memory::c_text;
use common::utilities::{OurResult, Reported, exit_code};
use common::{errln, outln};
use kit::{
    OurOptions, our_accept, our_await_completion, our_buffer, our_dereg_mr, our_disconnect,
    our_post_recv, our_reg_mr, our_remote_data, our_server, our_setup_recv_wr, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_wc_flags};

const TEXT: &str = "written and told at once";
/// Two, so that a second message would find one as well.
const RECEIVES: usize = 2;

fn serve() -> OurResult {
    let mut conn = our_server(OurOptions { message: "peer", ..OurOptions::default() })?;
    let page = our_buffer(&conn, 64)?;
    let access =
        ibv_access_flags::IBV_ACCESS_LOCAL_WRITE | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE;
    let page_mr = our_reg_mr(&conn, &page, access)?;
    for _ in 0..RECEIVES {
        // without memory: what is written goes to the page
        our_post_recv(&conn, &mut our_setup_recv_wr(&mut []))?;
    }
    our_accept(&mut conn, &our_remote_data(&page, page_mr))?;

    let work_completion = our_await_completion(&conn)?;
    let has_imm = work_completion.wc_flags & ibv_wc_flags::IBV_WC_WITH_IMM.0 != 0;
    // SAFETY: every bit pattern is a number.
    let imm = u32::from_be(unsafe { work_completion.imm_data_invalidated_rkey_union.imm_data });
    let text = c_text(&page);
    outln!("on the page: {text:?}; told: {}", if has_imm { imm } else { 0 });

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, page_mr)?;
    our_unsetup(&mut conn)?;
    if !has_imm {
        errln!("peer: was not told how long the text is");
        return Err(Reported);
    }
    if imm as usize != TEXT.len() {
        errln!("peer: was told of {imm} bytes, and the text has {}", TEXT.len());
        return Err(Reported);
    }
    if text != TEXT {
        errln!("peer: this is not {TEXT:?}");
        return Err(Reported);
    }
    Ok(())
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
