//! A server that takes a datagram, and sends its bytes back to where they have come from.

use std::process::ExitCode;

use common::memory::{CArray, c_text};
use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OUR_IB_PORT, OurControl, OurOptions, failed, our_accept, our_await_completion, our_buffer,
    our_datagram_server, our_dereg_mr, our_destroy_ah, our_post_recv, our_post_send, our_reg_mr,
    our_setup_recv_wr, our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::{RDMA_UDP_QKEY, ibv_access_flags, ibv_create_ah_from_wc, ibv_grh, ibv_mr, ibv_wc};

/// Bytes of a datagram, at most.
const LENGTH: usize = 64;
/// Bytes of the global routing header.
const GRH: usize = size_of::<ibv_grh>();

/// Sends the datagram in the buffer back to where it has come from.
fn answer(
    conn: &OurControl,
    buffer: &CArray<u8>,
    mr: *mut ibv_mr,
    work_completion: &mut ibv_wc,
) -> OurResult {
    let (pd, grh) = (conn.protection_domain, buffer.addr().cast::<ibv_grh>());
    // SAFETY: the protection domain is alive; completion and header are those of one datagram.
    let ah = unsafe { ibv_create_ah_from_wc(pd, work_completion, grh, OUR_IB_PORT) };
    if ah.is_null() {
        return Err(failed("ibv_create_ah_from_wc", libc::ENOMEM, &conn.options));
    }
    // what has come begins behind the header, which is counted
    let mut sge = our_setup_sge(buffer, mr);
    sge.addr += GRH as u64;
    sge.length = work_completion.byte_len - GRH as u32;
    let mut sges = [sge];
    let mut wr = our_setup_send_wr(&mut sges);
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = work_completion.src_qp;
    wr.wr.ud.remote_qkey = RDMA_UDP_QKEY;
    our_post_send(conn, &mut wr)?;
    our_await_completion(conn)?;
    our_destroy_ah(conn, ah)
}

fn serve() -> OurResult {
    // listens until a client asks, and creates a queue pair for datagrams
    let mut conn = our_datagram_server(OurOptions { message: "server", ..OurOptions::default() })?;
    let buffer = our_buffer(&conn, GRH + LENGTH)?;
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    our_post_recv(&conn, &mut our_setup_recv_wr(&mut [our_setup_sge(&buffer, mr)]))?;
    // tells the client the queue pair's number
    our_accept(&mut conn, &[])?;

    let mut work_completion = our_await_completion(&conn)?;
    outln!("{}", c_text(&buffer[GRH..]));
    answer(&conn, &buffer, mr, &mut work_completion)?;

    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
