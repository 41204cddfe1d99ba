//! Requests of commands. [`Command::request`](super::Command::request) reads them.
#![allow(missing_docs, reason = "the names are the header's")]

use std::mem::offset_of;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::command;

/// The payload of a command.
pub trait Request: FromBytes + IntoBytes + Immutable {
    /// The command that it is the payload of.
    const NUMBER: u32;
    /// Bytes that there must be, up to the end of the last field that anybody looks at. What is
    /// missing behind them counts as zeros.
    const REQUIRED: usize;
}

abi! { "rdma/ib_user_verbs.h":
    struct CmdHdr = "struct ib_uverbs_cmd_hdr" {
        command: u32,
        in_words: u16,
        out_words: u16,
    }
    /// Follows the first header in extended commands.
    struct ExCmdHdr = "struct ib_uverbs_ex_cmd_hdr" {
        response: u64,
        provider_in_words: u16,
        provider_out_words: u16,
        cmd_hdr_reserved: u32,
    }
    struct GetContext = "struct ib_uverbs_get_context" {
        response: u64,
    }
    struct QueryDevice = "struct ib_uverbs_query_device" {
        response: u64,
    }
    struct ExQueryDevice = "struct ib_uverbs_ex_query_device" {
        comp_mask: u32,
        reserved: u32,
    }
    struct QueryPort = "struct ib_uverbs_query_port" {
        response: u64,
        port_num: u8,
        reserved: [u8; 7],
    }
    struct AllocPd = "struct ib_uverbs_alloc_pd" {
        response: u64,
    }
    struct DeallocPd = "struct ib_uverbs_dealloc_pd" {
        pd_handle: u32,
    }
    struct RegMr = "struct ib_uverbs_reg_mr" {
        response: u64,
        start: u64,
        length: u64,
        hca_va: u64,
        pd_handle: u32,
        access_flags: u32,
    }
    struct DeregMr = "struct ib_uverbs_dereg_mr" {
        mr_handle: u32,
    }
    struct AllocMw = "struct ib_uverbs_alloc_mw" {
        response: u64,
        pd_handle: u32,
        mw_type: u8,
        reserved: [u8; 3],
    }
    struct DeallocMw = "struct ib_uverbs_dealloc_mw" {
        mw_handle: u32,
    }
    struct GlobalRoute = "struct ib_uverbs_global_route" {
        dgid: [u8; 16],
        flow_label: u32,
        sgid_index: u8,
        hop_limit: u8,
        traffic_class: u8,
        reserved: u8,
    }
    struct AhAttr = "struct ib_uverbs_ah_attr" {
        grh: GlobalRoute,
        dlid: u16,
        sl: u8,
        src_path_bits: u8,
        static_rate: u8,
        is_global: u8,
        port_num: u8,
        reserved: u8,
    }
    struct CreateAh = "struct ib_uverbs_create_ah" {
        response: u64,
        user_handle: u64,
        pd_handle: u32,
        reserved: u32,
        attr: AhAttr,
    }
    struct DestroyAh = "struct ib_uverbs_destroy_ah" {
        ah_handle: u32,
    }
    struct CreateCompChannel = "struct ib_uverbs_create_comp_channel" {
        response: u64,
    }
    struct CreateCq = "struct ib_uverbs_create_cq" {
        response: u64,
        user_handle: u64,
        cqe: u32,
        comp_vector: u32,
        comp_channel: i32,
        reserved: u32,
    }
    struct ExCreateCq = "struct ib_uverbs_ex_create_cq" {
        user_handle: u64,
        cqe: u32,
        comp_vector: u32,
        comp_channel: i32,
        comp_mask: u32,
        flags: u32,
        reserved: u32,
    }
    struct ResizeCq = "struct ib_uverbs_resize_cq" {
        response: u64,
        cq_handle: u32,
        cqe: u32,
    }
    struct DestroyCq = "struct ib_uverbs_destroy_cq" {
        response: u64,
        cq_handle: u32,
        reserved: u32,
    }
    struct ReqNotifyCq = "struct ib_uverbs_req_notify_cq" {
        cq_handle: u32,
        solicited_only: u32,
    }
    struct CreateQp = "struct ib_uverbs_create_qp" {
        response: u64,
        user_handle: u64,
        pd_handle: u32,
        send_cq_handle: u32,
        recv_cq_handle: u32,
        srq_handle: u32,
        max_send_wr: u32,
        max_recv_wr: u32,
        max_send_sge: u32,
        max_recv_sge: u32,
        max_inline_data: u32,
        sq_sig_all: u8,
        qp_type: u8,
        is_srq: u8,
        reserved: u8,
    }
    struct ExCreateQp = "struct ib_uverbs_ex_create_qp" {
        user_handle: u64,
        pd_handle: u32,
        send_cq_handle: u32,
        recv_cq_handle: u32,
        srq_handle: u32,
        max_send_wr: u32,
        max_recv_wr: u32,
        max_send_sge: u32,
        max_recv_sge: u32,
        max_inline_data: u32,
        sq_sig_all: u8,
        qp_type: u8,
        is_srq: u8,
        reserved: u8,
        comp_mask: u32,
        create_flags: u32,
        rwq_ind_tbl_handle: u32,
        source_qpn: u32,
    }
    struct QpDest = "struct ib_uverbs_qp_dest" {
        dgid: [u8; 16],
        flow_label: u32,
        dlid: u16,
        reserved: u16,
        sgid_index: u8,
        hop_limit: u8,
        traffic_class: u8,
        sl: u8,
        src_path_bits: u8,
        static_rate: u8,
        is_global: u8,
        port_num: u8,
    }
    struct QueryQp = "struct ib_uverbs_query_qp" {
        response: u64,
        qp_handle: u32,
        attr_mask: u32,
    }
    struct ModifyQp = "struct ib_uverbs_modify_qp" {
        dest: QpDest,
        alt_dest: QpDest,
        qp_handle: u32,
        attr_mask: u32,
        qkey: u32,
        rq_psn: u32,
        sq_psn: u32,
        dest_qp_num: u32,
        qp_access_flags: u32,
        pkey_index: u16,
        alt_pkey_index: u16,
        qp_state: u8,
        cur_qp_state: u8,
        path_mtu: u8,
        path_mig_state: u8,
        en_sqd_async_notify: u8,
        max_rd_atomic: u8,
        max_dest_rd_atomic: u8,
        min_rnr_timer: u8,
        port_num: u8,
        timeout: u8,
        retry_cnt: u8,
        rnr_retry: u8,
        alt_port_num: u8,
        alt_timeout: u8,
        reserved: [u8; 2],
    }
    struct DestroyQp = "struct ib_uverbs_destroy_qp" {
        response: u64,
        qp_handle: u32,
        reserved: u32,
    }
    /// Work requests may follow, but not of this provider: it is a doorbell.
    struct PostSend = "struct ib_uverbs_post_send" {
        response: u64,
        qp_handle: u32,
        wr_count: u32,
        sge_count: u32,
        wqe_size: u32,
    }
    struct AttachMcast = "struct ib_uverbs_attach_mcast" {
        gid: [u8; 16],
        qp_handle: u32,
        mlid: u16,
        reserved: u16,
    }
    struct DetachMcast = "struct ib_uverbs_detach_mcast" {
        gid: [u8; 16],
        qp_handle: u32,
        mlid: u16,
        reserved: u16,
    }
    struct CreateSrq = "struct ib_uverbs_create_srq" {
        response: u64,
        user_handle: u64,
        pd_handle: u32,
        max_wr: u32,
        max_sge: u32,
        srq_limit: u32,
    }
    struct ModifySrq = "struct ib_uverbs_modify_srq" {
        srq_handle: u32,
        attr_mask: u32,
        max_wr: u32,
        srq_limit: u32,
    }
    struct QuerySrq = "struct ib_uverbs_query_srq" {
        response: u64,
        srq_handle: u32,
        reserved: u32,
    }
    struct DestroySrq = "struct ib_uverbs_destroy_srq" {
        response: u64,
        srq_handle: u32,
        reserved: u32,
    }
}

/// Says which command each is the payload of, and the last field that has to be there.
macro_rules! requests {
    ($($name:ident = $number:ident $(up to $field:ident: $type:ty)?),* $(,)?) => {
        $(
            impl Request for $name {
                const NUMBER: u32 = command::$number;
                const REQUIRED: usize = 0 $(+ offset_of!($name, $field) + size_of::<$type>())?;
            }
        )*
    };
}

requests! {
    GetContext = GET_CONTEXT,
    QueryDevice = QUERY_DEVICE,
    ExQueryDevice = EX_QUERY_DEVICE,
    QueryPort = QUERY_PORT up to port_num: u8,
    AllocPd = ALLOC_PD,
    DeallocPd = DEALLOC_PD up to pd_handle: u32,
    RegMr = REG_MR up to access_flags: u32,
    DeregMr = DEREG_MR up to mr_handle: u32,
    AllocMw = ALLOC_MW up to mw_type: u8,
    DeallocMw = DEALLOC_MW up to mw_handle: u32,
    CreateAh = CREATE_AH up to attr: AhAttr,
    DestroyAh = DESTROY_AH up to ah_handle: u32,
    CreateCompChannel = CREATE_COMP_CHANNEL,
    CreateCq = CREATE_CQ up to comp_channel: i32,
    ExCreateCq = EX_CREATE_CQ up to flags: u32,
    ResizeCq = RESIZE_CQ up to cqe: u32,
    DestroyCq = DESTROY_CQ up to cq_handle: u32,
    ReqNotifyCq = REQ_NOTIFY_CQ up to solicited_only: u32,
    CreateQp = CREATE_QP up to is_srq: u8,
    ExCreateQp = EX_CREATE_QP up to create_flags: u32,
    QueryQp = QUERY_QP up to qp_handle: u32,
    ModifyQp = MODIFY_QP up to rnr_retry: u8,
    DestroyQp = DESTROY_QP up to qp_handle: u32,
    PostSend = POST_SEND up to qp_handle: u32,
    AttachMcast = ATTACH_MCAST up to qp_handle: u32,
    DetachMcast = DETACH_MCAST up to qp_handle: u32,
    CreateSrq = CREATE_SRQ up to srq_limit: u32,
    ModifySrq = MODIFY_SRQ up to srq_limit: u32,
    QuerySrq = QUERY_SRQ up to srq_handle: u32,
    DestroySrq = DESTROY_SRQ up to srq_handle: u32,
}

impl From<CreateCq> for ExCreateCq {
    fn from(plain: CreateCq) -> Self {
        let CreateCq { user_handle, cqe, comp_vector, comp_channel, .. } = plain;
        Self { user_handle, cqe, comp_vector, comp_channel, ..Self::default() }
    }
}

impl From<CreateQp> for ExCreateQp {
    fn from(plain: CreateQp) -> Self {
        Self {
            user_handle: plain.user_handle,
            pd_handle: plain.pd_handle,
            send_cq_handle: plain.send_cq_handle,
            recv_cq_handle: plain.recv_cq_handle,
            srq_handle: plain.srq_handle,
            max_send_wr: plain.max_send_wr,
            max_recv_wr: plain.max_recv_wr,
            max_send_sge: plain.max_send_sge,
            max_recv_sge: plain.max_recv_sge,
            max_inline_data: plain.max_inline_data,
            sq_sig_all: plain.sq_sig_all,
            qp_type: plain.qp_type,
            is_srq: plain.is_srq,
            ..Self::default()
        }
    }
}
