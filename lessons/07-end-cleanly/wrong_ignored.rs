//! Wrong. The coach says: ibv_destroy_cq is refused with EBUSY

use std::process::ExitCode;

use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_await_completion, our_buffer, our_client, our_connect, our_disconnect,
    our_fill, our_post_send, our_reg_mr, our_setup_send_wr, our_setup_sge,
};
use rdma_sys::{
    ibv_access_flags, ibv_dealloc_pd, ibv_dereg_mr, ibv_destroy_cq, rdma_destroy_id,
    rdma_destroy_qp,
};

const TEXT: &str = "good-bye";

fn run() -> OurResult {
    let mut conn = our_client(OurOptions { message: "client", ..OurOptions::default() })?;
    let buffer = our_buffer(&conn, TEXT.len())?;
    our_fill(&buffer, TEXT);
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags(0))?;
    our_connect(&mut conn, &[])?;
    our_post_send(&conn, &mut our_setup_send_wr(&mut [our_setup_sge(&buffer, mr)]))?;
    our_await_completion(&conn)?;

    our_disconnect(&mut conn)?;

    // SAFETY: what they are given was created above.
    unsafe {
        ibv_dereg_mr(mr);
        ibv_destroy_cq(conn.completion_queue);
        rdma_destroy_qp(conn.cm_id);
        ibv_destroy_cq(conn.completion_queue);
        ibv_dealloc_pd(conn.protection_domain);
        rdma_destroy_id(conn.cm_id);
    }
    Ok(())
}

pub fn main() -> ExitCode {
    exit_code(run())
}
