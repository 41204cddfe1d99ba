//! A client that brings its queue pair up itself, sends a message and takes the answer.

use std::process::ExitCode;

use common::memory::{c_text, zeroed};
use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OUR_IB_PORT, OurOptions, OurRaw, failed, our_await_completion, our_buffer, our_dereg_mr,
    our_fill, our_post_recv, our_post_send, our_raw_client, our_reg_mr, our_setup_recv_wr,
    our_setup_send_wr, our_setup_sge, our_sync, our_unsetup_raw,
};
use rdma_sys::{ibv_access_flags, ibv_modify_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_state};

const TEXT: &str = "by hand";

fn modify_qp(raw: &OurRaw, attr: &mut ibv_qp_attr, mask: ibv_qp_attr_mask) -> OurResult {
    // SAFETY: the queue pair is alive; the library reads the attributes during the call.
    let ret = unsafe { ibv_modify_qp(raw.conn.queue_pair, attr, mask.0 as i32) };
    if ret != 0 { Err(failed("ibv_modify_qp", ret, &raw.conn.options)) } else { Ok(()) }
}

/// From RESET to INIT: receives can be posted.
fn to_init(raw: &OurRaw) -> OurResult {
    let mut attr: ibv_qp_attr = zeroed();
    attr.qp_state = ibv_qp_state::IBV_QPS_INIT;
    attr.pkey_index = 0;
    attr.port_num = OUR_IB_PORT;
    attr.qp_access_flags = 0;
    let mask = ibv_qp_attr_mask::IBV_QP_STATE
        | ibv_qp_attr_mask::IBV_QP_PKEY_INDEX
        | ibv_qp_attr_mask::IBV_QP_PORT
        | ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS;
    modify_qp(raw, &mut attr, mask)
}

/// From INIT to RTR, ready to receive: it knows its peer, `raw.peer`.
fn to_rtr(_raw: &OurRaw) -> OurResult {
    // To do.
    Ok(())
}

/// From RTR to RTS, ready to send as well: `raw.own.psn` is what it begins with.
fn to_rts(_raw: &OurRaw) -> OurResult {
    // To do.
    Ok(())
}

fn run() -> OurResult {
    let mut raw = our_raw_client(OurOptions { message: "client", ..OurOptions::default() })?;
    let buffer = our_buffer(&raw.conn, 32)?;
    our_fill(&buffer, TEXT);
    let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
    let mr = our_reg_mr(&raw.conn, &buffer, access)?;

    to_init(&raw)?;
    let mut sge = our_setup_sge(&buffer, mr);
    our_post_recv(&raw.conn, &mut our_setup_recv_wr(&mut [sge]))?;
    to_rtr(&raw)?;
    to_rts(&raw)?;
    // the peer, too, is ready to receive
    our_sync(&mut raw)?;

    sge.length = TEXT.len() as u32;
    our_post_send(&raw.conn, &mut our_setup_send_wr(&mut [sge]))?;
    // of the send, and of the receive
    our_await_completion(&raw.conn)?;
    our_await_completion(&raw.conn)?;
    outln!("{}", c_text(&buffer));

    our_dereg_mr(&raw.conn, mr)?;
    our_unsetup_raw(&mut raw)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
