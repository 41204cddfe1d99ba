//! The server: takes four messages.

use std::process::ExitCode;

use common::memory::c_text;
use common::utilities::{OurResult, Reported, exit_code};
use common::{errln, outln};
use kit::{
    OurOptions, our_accept, our_await_completion, our_buffer, our_dereg_mr, our_disconnect,
    our_post_recv, our_reg_mr, our_server, our_setup_recv_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::ibv_access_flags;

const TEXTS: [&str; 4] = ["one", "two", "three", "four"];

fn serve() -> OurResult {
    let mut conn = our_server(OurOptions { message: "peer", ..OurOptions::default() })?;
    let mut buffers = Vec::new();
    for _ in TEXTS {
        let buffer = our_buffer(&conn, 16)?;
        let mr = our_reg_mr(&conn, &buffer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
        our_post_recv(&conn, &mut our_setup_recv_wr(&mut [our_setup_sge(&buffer, mr)]))?;
        buffers.push((buffer, mr));
    }
    our_accept(&mut conn, &[])?;

    let mut is_right = true;
    for ((buffer, _), text) in buffers.iter().zip(TEXTS) {
        let work_completion = our_await_completion(&conn)?;
        let came = c_text(&buffer[..work_completion.byte_len as usize]);
        outln!("a message has come: {came:?}");
        is_right &= came == text;
    }
    our_disconnect(&mut conn)?;
    for (_, mr) in &buffers {
        our_dereg_mr(&conn, *mr)?;
    }
    our_unsetup(&mut conn)?;
    if !is_right {
        errln!("peer: these are not {TEXTS:?}");
        return Err(Reported);
    }
    Ok(())
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
