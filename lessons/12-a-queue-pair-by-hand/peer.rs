//! The server: brings its queue pair up, takes a message and answers it.

use std::process::ExitCode;

use common::memory::{c_text, zeroed};
use common::utilities::{OurResult, Reported, exit_code};
use common::{errln, outln};
use kit::{
    OUR_GID_INDEX, OUR_IB_PORT, OurOptions, OurRaw, failed, our_await_completion, our_buffer,
    our_dereg_mr, our_fill, our_post_recv, our_post_send, our_raw_server, our_reg_mr,
    our_setup_recv_wr, our_setup_send_wr, our_setup_sge, our_sync, our_unsetup_raw,
};
use rdma_sys::{
    ibv_access_flags, ibv_gid, ibv_modify_qp, ibv_mtu, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_state,
};

const TEXT: &str = "by hand";
const ANSWER: &str = "so it was";

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
fn to_rtr(raw: &OurRaw) -> OurResult {
    let mut attr: ibv_qp_attr = zeroed();
    attr.qp_state = ibv_qp_state::IBV_QPS_RTR;
    attr.path_mtu = ibv_mtu::IBV_MTU_1024;
    attr.dest_qp_num = raw.peer.qp_num;
    attr.rq_psn = raw.peer.psn;
    attr.max_dest_rd_atomic = 1;
    // 0.64 ms
    attr.min_rnr_timer = 12;
    attr.ah_attr.port_num = OUR_IB_PORT;
    // on Ethernet the way is a GID
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = ibv_gid { raw: raw.peer.gid };
    attr.ah_attr.grh.sgid_index = OUR_GID_INDEX;
    attr.ah_attr.grh.hop_limit = 64;
    let mask = ibv_qp_attr_mask::IBV_QP_STATE
        | ibv_qp_attr_mask::IBV_QP_AV
        | ibv_qp_attr_mask::IBV_QP_PATH_MTU
        | ibv_qp_attr_mask::IBV_QP_DEST_QPN
        | ibv_qp_attr_mask::IBV_QP_RQ_PSN
        | ibv_qp_attr_mask::IBV_QP_MAX_DEST_RD_ATOMIC
        | ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER;
    modify_qp(raw, &mut attr, mask)
}

/// From RTR to RTS, ready to send as well: `raw.own.psn` is what it begins with.
fn to_rts(raw: &OurRaw) -> OurResult {
    let mut attr: ibv_qp_attr = zeroed();
    attr.qp_state = ibv_qp_state::IBV_QPS_RTS;
    attr.sq_psn = raw.own.psn;
    attr.max_rd_atomic = 1;
    // 67 ms for an acknowledgement, and so many times again
    attr.timeout = 14;
    attr.retry_cnt = 5;
    attr.rnr_retry = 5;
    let mask = ibv_qp_attr_mask::IBV_QP_STATE
        | ibv_qp_attr_mask::IBV_QP_TIMEOUT
        | ibv_qp_attr_mask::IBV_QP_RETRY_CNT
        | ibv_qp_attr_mask::IBV_QP_RNR_RETRY
        | ibv_qp_attr_mask::IBV_QP_SQ_PSN
        | ibv_qp_attr_mask::IBV_QP_MAX_QP_RD_ATOMIC;
    modify_qp(raw, &mut attr, mask)
}

fn run() -> OurResult {
    let mut raw = our_raw_server(OurOptions { message: "peer", ..OurOptions::default() })?;
    let buffer = our_buffer(&raw.conn, 32)?;
    let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
    let mr = our_reg_mr(&raw.conn, &buffer, access)?;

    to_init(&raw)?;
    let mut sge = our_setup_sge(&buffer, mr);
    our_post_recv(&raw.conn, &mut our_setup_recv_wr(&mut [sge]))?;
    // a program that does not wait for it comes too early
    std::thread::sleep(std::time::Duration::from_millis(100));
    to_rtr(&raw)?;
    to_rts(&raw)?;
    // the peer, too, is ready to receive
    our_sync(&mut raw)?;

    our_await_completion(&raw.conn)?;
    let text = c_text(&buffer);
    outln!("a message has come: {text:?}");
    // meanwhile the student's program can have the completion of its send, but not the answer
    std::thread::sleep(std::time::Duration::from_millis(100));
    our_fill(&buffer, ANSWER);
    sge.length = ANSWER.len() as u32;
    our_post_send(&raw.conn, &mut our_setup_send_wr(&mut [sge]))?;
    our_await_completion(&raw.conn)?;

    our_dereg_mr(&raw.conn, mr)?;
    our_unsetup_raw(&mut raw)?;
    if text != TEXT {
        errln!("peer: this is not {TEXT:?}");
        return Err(Reported);
    }
    Ok(())
}

pub fn main() -> ExitCode {
    exit_code(run())
}
