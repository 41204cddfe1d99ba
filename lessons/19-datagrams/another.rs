//! Right, otherwise: the header goes into memory of its own, the address is taken apart before the handle is
//! made, and a text of another buffer is sent.

use std::process::ExitCode;

use common::memory::{CArray, c_text, zeroed};
use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OUR_IB_PORT, OurControl, OurOptions, failed, our_accept, our_await_completion, our_buffer,
    our_create_ah, our_datagram_server, our_dereg_mr, our_destroy_ah, our_fill, our_post_recv,
    our_post_send, our_reg_mr, our_setup_recv_wr, our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::{
    RDMA_UDP_QKEY, ibv_access_flags, ibv_ah_attr, ibv_grh, ibv_init_ah_from_wc, ibv_wc,
};

/// Bytes of a datagram, at most.
const LENGTH: usize = 64;
/// Bytes of the global routing header.
const GRH: usize = size_of::<ibv_grh>();

/// Sends the text to where a datagram with this header has come from.
fn answer(
    conn: &OurControl,
    text: &str,
    header: &CArray<u8>,
    work_completion: &mut ibv_wc,
) -> OurResult {
    let mut attr: ibv_ah_attr = zeroed();
    // SAFETY: the id is alive and has a device; completion and header are those of one datagram.
    let ret = unsafe {
        let grh = header.addr().cast();
        ibv_init_ah_from_wc((*conn.cm_id).verbs, OUR_IB_PORT, work_completion, grh, &mut attr)
    };
    if ret != 0 {
        return Err(failed("ibv_init_ah_from_wc", ret, &conn.options));
    }
    let ah = our_create_ah(conn, &mut attr)?;
    let buffer = our_buffer(conn, text.len())?;
    our_fill(&buffer, text);
    let mr = our_reg_mr(conn, &buffer, ibv_access_flags(0))?;
    let mut sges = [our_setup_sge(&buffer, mr)];
    let mut wr = our_setup_send_wr(&mut sges);
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = work_completion.src_qp;
    wr.wr.ud.remote_qkey = RDMA_UDP_QKEY;
    our_post_send(conn, &mut wr)?;
    our_await_completion(conn)?;
    our_dereg_mr(conn, mr)?;
    our_destroy_ah(conn, ah)
}

fn serve() -> OurResult {
    // listens until a client asks, and creates a queue pair for datagrams
    let mut conn = our_datagram_server(OurOptions { message: "server", ..OurOptions::default() })?;
    let (header, memory) = (our_buffer(&conn, GRH)?, our_buffer(&conn, LENGTH)?);
    let header_mr = our_reg_mr(&conn, &header, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    let text_mr = our_reg_mr(&conn, &memory, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    let mut sges = [our_setup_sge(&header, header_mr), our_setup_sge(&memory, text_mr)];
    our_post_recv(&conn, &mut our_setup_recv_wr(&mut sges))?;
    // tells the client the queue pair's number
    our_accept(&mut conn, &[])?;

    let mut work_completion = our_await_completion(&conn)?;
    let text = c_text(&memory[..work_completion.byte_len as usize - GRH]);
    outln!("{text}");
    answer(&conn, &text, &header, &mut work_completion)?;

    our_dereg_mr(&conn, text_mr)?;
    our_dereg_mr(&conn, header_mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
