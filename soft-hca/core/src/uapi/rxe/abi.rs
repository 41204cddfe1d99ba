//! The structures of `rdma_user_rxe.h`: what the provider puts behind requests and finds behind
//! answers, and work requests, of which only the offsets are used.
#![allow(missing_docs, reason = "the names are the header's")]

use std::sync::atomic::Ordering::Acquire;

use crate::arena::RingLocation;
use crate::ring;
use crate::system::page_bytes;
use crate::uapi::uverbs::answer::answers;

abi! { "rdma/rdma_user_rxe.h":
    /// Memory that the provider maps: offset and bytes, in whole pages.
    struct MmInfo = "struct mminfo" {
        offset: u64,
        size: u32,
        pad: u32,
    }
    struct CreateAhResp = "struct rxe_create_ah_resp" {
        ah_num: u32,
        reserved: u32,
    }
    struct CreateCqResp = "struct rxe_create_cq_resp" {
        mi: MmInfo,
    }
    struct ResizeCqResp = "struct rxe_resize_cq_resp" {
        mi: MmInfo,
    }
    struct CreateQpResp = "struct rxe_create_qp_resp" {
        rq_mi: MmInfo,
        sq_mi: MmInfo,
    }
    struct CreateSrqResp = "struct rxe_create_srq_resp" {
        mi: MmInfo,
        srq_num: u32,
        reserved: u32,
    }
    /// Where the provider wants the [`MmInfo`] of a ring that has been resized.
    struct ModifySrqCmd = "struct rxe_modify_srq_cmd" {
        mmap_info_addr: u64,
    }
    struct SendWr = "struct rxe_send_wr" {
        wr_id: u64,
        reserved: u32,
        opcode: u32,
        send_flags: u32,
        ex: u32,
        wr: [u64; 15],
    }
    struct RdmaWr = "__typeof__(((struct rxe_send_wr *)0)->wr.rdma)" {
        remote_addr: u64,
        rkey: u32,
        reserved: u32,
    }
    struct AtomicWr = "__typeof__(((struct rxe_send_wr *)0)->wr.atomic)" {
        remote_addr: u64,
        compare_add: u64,
        swap: u64,
        rkey: u32,
        reserved: u32,
    }
    /// Older headers do not have it.
    struct FlushWr = "__typeof__(((struct rxe_send_wr *)0)->wr.flush)" {
        remote_addr: u64,
        length: u32,
        rkey: u32,
        r#type: u8,
        level: u8,
        _end: [u8; 6],
    }
    struct MwWr = "__typeof__(((struct rxe_send_wr *)0)->wr.mw)" {
        addr: u64,
        length: u64,
        mr_lkey: u32,
        mw_rkey: u32,
        rkey: u32,
        access: u32,
    }
    struct GlobalRoute = "struct rxe_global_route" {
        dgid: [u8; 16],
        flow_label: u32,
        sgid_index: u8,
        hop_limit: u8,
        traffic_class: u8,
        _end: u8,
    }
    struct Av = "struct rxe_av" {
        port_num: u8,
        network_type: u8,
        dmac: [u8; 6],
        grh: GlobalRoute,
        sgid_addr: [u32; 7],
        dgid_addr: [u32; 7],
    }
    struct UdWr = "__typeof__(((struct rxe_send_wr *)0)->wr.ud)" {
        remote_qpn: u32,
        remote_qkey: u32,
        pkey_index: u16,
        reserved: u16,
        ah_num: u32,
        pad: [u32; 4],
        av: Av,
    }
    struct Sge = "struct rxe_sge" {
        addr: u64,
        length: u32,
        lkey: u32,
    }
    struct DmaInfo = "struct rxe_dma_info" {
        length: u32,
        resid: u32,
        cur_sge: u32,
        num_sge: u32,
        sge_offset: u32,
        reserved: u32,
    }
    struct SendWqe = "struct rxe_send_wqe" {
        wr: SendWr,
        status: u32,
        state: u32,
        iova: u64,
        mask: u32,
        first_psn: u32,
        last_psn: u32,
        ack_length: u32,
        ssn: u32,
        has_rd_atomic: u32,
        dma: DmaInfo,
    }
    struct RecvWqe = "struct rxe_recv_wqe" {
        wr_id: u64,
        reserved: u32,
        padding: u32,
        dma: DmaInfo,
    }
}

answers! { MmInfo, CreateAhResp, CreateCqResp, ResizeCqResp, CreateQpResp, CreateSrqResp }

impl MmInfo {
    /// Where a ring is in the arena's file.
    pub fn of(place: &RingLocation) -> Self {
        let bytes = ring::bytes(place.mask.load(Acquire), place.log2_slot.load(Acquire));
        let size = bytes.unwrap_or(0).next_multiple_of(page_bytes()) as u32;
        Self { offset: place.offset.load(Acquire), size, pad: 0 }
    }
}
