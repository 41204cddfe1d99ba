//! Immediate data: 32 bits that a message has beside its bytes. They come in the completion of the
//! receive, so that this needs no memory for them.

use rdma_sys::{ibv_send_wr, ibv_wc, ibv_wc_flags, ibv_wr_opcode};

/// Makes a send one with immediate data.
pub fn our_set_imm(work_request: &mut ibv_send_wr, imm: u32) {
    work_request.opcode = ibv_wr_opcode::IBV_WR_SEND_WITH_IMM;
    // most significant byte first, as it is on the wire
    work_request.imm_data_invalidated_rkey_union.imm_data = imm.to_be();
}

/// The immediate data that a completion has, if it has some: that of a send has none.
pub fn our_imm(work_completion: &ibv_wc) -> Option<u32> {
    if work_completion.wc_flags & ibv_wc_flags::IBV_WC_WITH_IMM.0 == 0 {
        return None;
    }
    // SAFETY: the flag says that this is the member that counts; either is a number.
    let imm = unsafe { work_completion.imm_data_invalidated_rkey_union.imm_data };
    Some(u32::from_be(imm))
}
