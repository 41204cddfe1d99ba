//! Right, otherwise: one region has both, the data at its beginning and the header far behind them.

use std::process::ExitCode;

use common::memory::c_text;
use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_accept, our_await_completion, our_buffer, our_dereg_mr, our_disconnect,
    our_post_recv, our_reg_mr, our_server, our_setup_recv_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::ibv_access_flags;

/// Bytes of the header.
const HEADER: usize = 8;
/// Where it is, and the data before it.
const HEADER_AT: usize = 4096;

fn serve() -> OurResult {
    let mut conn = our_server(OurOptions { message: "server", ..OurOptions::default() })?;
    let both = our_buffer(&conn, HEADER_AT + HEADER)?;
    let mr = our_reg_mr(&conn, &both, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;

    let (mut header, mut data) = (our_setup_sge(&both, mr), our_setup_sge(&both, mr));
    header.addr += HEADER_AT as u64;
    header.length = HEADER as u32;
    data.length = HEADER_AT as u32;
    our_post_recv(&conn, &mut our_setup_recv_wr(&mut [header, data]))?;
    our_accept(&mut conn, &[])?;

    let length = our_await_completion(&conn)?.byte_len as usize;
    let header = c_text(&both[HEADER_AT..]);
    outln!("{header:?} and {} bytes behind it", length.saturating_sub(HEADER));

    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
