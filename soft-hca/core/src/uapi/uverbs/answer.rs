//! Answers to commands, and the records that reads of events give.
#![allow(missing_docs, reason = "the names are the header's")]

use super::request::{AhAttr, QpDest};

/// An answer to a command.
pub trait Answer {
    /// Its bytes, behind others.
    fn append_to(&self, bytes: &mut Vec<u8>);

    /// Its bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes);
        bytes
    }
}

/// Commands that only succeed or fail.
impl Answer for () {
    fn append_to(&self, _bytes: &mut Vec<u8>) {}
}

/// The core's part of an answer and what the provider of the device has behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct WithDriverData<A, D>(pub A, pub D);

impl<A: Answer, D: Answer> Answer for WithDriverData<A, D> {
    fn append_to(&self, bytes: &mut Vec<u8>) {
        self.0.append_to(bytes);
        self.1.append_to(bytes);
    }
}

/// Not there, no bytes.
impl<A: Answer> Answer for Option<A> {
    fn append_to(&self, bytes: &mut Vec<u8>) {
        self.iter().for_each(|answer| answer.append_to(bytes));
    }
}

/// Structures that are answers by their bytes.
macro_rules! answers {
    ($($name:ty),* $(,)?) => {
        $(
            impl $crate::uapi::uverbs::answer::Answer for $name {
                fn append_to(&self, bytes: &mut Vec<u8>) {
                    bytes.extend(zerocopy::IntoBytes::as_bytes(self));
                }
            }
        )*
    };
}
pub(in crate::uapi) use answers;

abi! { "rdma/ib_user_verbs.h":
    struct GetContext = "struct ib_uverbs_get_context_resp" {
        async_fd: i32,
        num_comp_vectors: u32,
    }
    struct QueryDevice = "struct ib_uverbs_query_device_resp" {
        fw_ver: u64,
        node_guid: [u8; 8],
        sys_image_guid: [u8; 8],
        max_mr_size: u64,
        page_size_cap: u64,
        vendor_id: u32,
        vendor_part_id: u32,
        hw_ver: u32,
        max_qp: u32,
        max_qp_wr: u32,
        device_cap_flags: u32,
        max_sge: u32,
        max_sge_rd: u32,
        max_cq: u32,
        max_cqe: u32,
        max_mr: u32,
        max_pd: u32,
        max_qp_rd_atom: u32,
        max_ee_rd_atom: u32,
        max_res_rd_atom: u32,
        max_qp_init_rd_atom: u32,
        max_ee_init_rd_atom: u32,
        atomic_cap: u32,
        max_ee: u32,
        max_rdd: u32,
        max_mw: u32,
        max_raw_ipv6_qp: u32,
        max_raw_ethy_qp: u32,
        max_mcast_grp: u32,
        max_mcast_qp_attach: u32,
        max_total_mcast_qp_attach: u32,
        max_ah: u32,
        max_fmr: u32,
        max_map_per_fmr: u32,
        max_srq: u32,
        max_srq_wr: u32,
        max_srq_sge: u32,
        max_pkeys: u16,
        local_ca_ack_delay: u8,
        phys_port_cnt: u8,
        reserved: [u8; 4],
    }
    struct OdpCaps = "struct ib_uverbs_odp_caps" {
        general_caps: u64,
        per_transport_caps: [u32; 3],
        reserved: u32,
    }
    struct RssCaps = "struct ib_uverbs_rss_caps" {
        supported_qpts: u32,
        max_rwq_indirection_tables: u32,
        max_rwq_indirection_table_size: u32,
        reserved: u32,
    }
    struct TmCaps = "struct ib_uverbs_tm_caps" {
        max_rndv_hdr_size: u32,
        max_num_tags: u32,
        flags: u32,
        max_ops: u32,
        max_sge: u32,
        reserved: u32,
    }
    struct CqModerationCaps = "struct ib_uverbs_cq_moderation_caps" {
        max_cq_moderation_count: u16,
        max_cq_moderation_period: u16,
        reserved: u32,
    }
    struct ExQueryDevice = "struct ib_uverbs_ex_query_device_resp" {
        base: QueryDevice,
        comp_mask: u32,
        response_length: u32,
        odp_caps: OdpCaps,
        timestamp_mask: u64,
        hca_core_clock: u64,
        device_cap_flags_ex: u64,
        rss_caps: RssCaps,
        max_wq_type_rq: u32,
        raw_packet_caps: u32,
        tm_caps: TmCaps,
        cq_moderation_caps: CqModerationCaps,
        max_dm_size: u64,
        xrc_odp_caps: u32,
        reserved: u32,
    }
    struct QueryPort = "struct ib_uverbs_query_port_resp" {
        port_cap_flags: u32,
        max_msg_sz: u32,
        bad_pkey_cntr: u32,
        qkey_viol_cntr: u32,
        gid_tbl_len: u32,
        pkey_tbl_len: u16,
        lid: u16,
        sm_lid: u16,
        state: u8,
        max_mtu: u8,
        active_mtu: u8,
        lmc: u8,
        max_vl_num: u8,
        sm_sl: u8,
        subnet_timeout: u8,
        init_type_reply: u8,
        active_width: u8,
        active_speed: u8,
        phys_state: u8,
        link_layer: u8,
        flags: u8,
        reserved: u8,
    }
    struct AllocPd = "struct ib_uverbs_alloc_pd_resp" {
        pd_handle: u32,
    }
    struct RegMr = "struct ib_uverbs_reg_mr_resp" {
        mr_handle: u32,
        lkey: u32,
        rkey: u32,
    }
    struct AllocMw = "struct ib_uverbs_alloc_mw_resp" {
        mw_handle: u32,
        rkey: u32,
    }
    struct CreateAh = "struct ib_uverbs_create_ah_resp" {
        ah_handle: u32,
    }
    struct CreateCompChannel = "struct ib_uverbs_create_comp_channel_resp" {
        fd: i32,
    }
    struct CreateCq = "struct ib_uverbs_create_cq_resp" {
        cq_handle: u32,
        cqe: u32,
    }
    struct ExCreateCq = "struct ib_uverbs_ex_create_cq_resp" {
        base: CreateCq,
        comp_mask: u32,
        response_length: u32,
    }
    struct ResizeCq = "struct ib_uverbs_resize_cq_resp" {
        cqe: u32,
        reserved: u32,
    }
    struct DestroyCq = "struct ib_uverbs_destroy_cq_resp" {
        comp_events_reported: u32,
        async_events_reported: u32,
    }
    struct CreateQp = "struct ib_uverbs_create_qp_resp" {
        qp_handle: u32,
        qpn: u32,
        max_send_wr: u32,
        max_recv_wr: u32,
        max_send_sge: u32,
        max_recv_sge: u32,
        max_inline_data: u32,
        reserved: u32,
    }
    struct ExCreateQp = "struct ib_uverbs_ex_create_qp_resp" {
        base: CreateQp,
        comp_mask: u32,
        response_length: u32,
    }
    struct QueryQp = "struct ib_uverbs_query_qp_resp" {
        dest: QpDest,
        alt_dest: QpDest,
        max_send_wr: u32,
        max_recv_wr: u32,
        max_send_sge: u32,
        max_recv_sge: u32,
        max_inline_data: u32,
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
        sq_draining: u8,
        max_rd_atomic: u8,
        max_dest_rd_atomic: u8,
        min_rnr_timer: u8,
        port_num: u8,
        timeout: u8,
        retry_cnt: u8,
        rnr_retry: u8,
        alt_port_num: u8,
        alt_timeout: u8,
        sq_sig_all: u8,
        reserved: [u8; 5],
    }
    struct DestroyQp = "struct ib_uverbs_destroy_qp_resp" {
        events_reported: u32,
    }
    struct CreateSrq = "struct ib_uverbs_create_srq_resp" {
        srq_handle: u32,
        max_wr: u32,
        max_sge: u32,
        srqn: u32,
    }
    struct QuerySrq = "struct ib_uverbs_query_srq_resp" {
        max_wr: u32,
        max_sge: u32,
        srq_limit: u32,
        reserved: u32,
    }
    struct DestroySrq = "struct ib_uverbs_destroy_srq_resp" {
        events_reported: u32,
    }
    /// The connection manager's answer to INIT_QP_ATTR.
    struct QpAttr = "struct ib_uverbs_qp_attr" {
        qp_attr_mask: u32,
        qp_state: u32,
        cur_qp_state: u32,
        path_mtu: u32,
        path_mig_state: u32,
        qkey: u32,
        rq_psn: u32,
        sq_psn: u32,
        dest_qp_num: u32,
        qp_access_flags: u32,
        ah_attr: AhAttr,
        alt_ah_attr: AhAttr,
        max_send_wr: u32,
        max_recv_wr: u32,
        max_send_sge: u32,
        max_recv_sge: u32,
        max_inline_data: u32,
        pkey_index: u16,
        alt_pkey_index: u16,
        en_sqd_async_notify: u8,
        sq_draining: u8,
        max_rd_atomic: u8,
        max_dest_rd_atomic: u8,
        min_rnr_timer: u8,
        port_num: u8,
        timeout: u8,
        retry_cnt: u8,
        rnr_retry: u8,
        alt_port_num: u8,
        alt_timeout: u8,
        reserved: [u8; 5],
    }
    struct AsyncEventDesc = "struct ib_uverbs_async_event_desc" {
        element: u64,
        event_type: u32,
        reserved: u32,
    }
    /// A completion, as it lies in the ring.
    struct Wc = "struct ib_uverbs_wc" {
        wr_id: u64,
        status: u32,
        opcode: u32,
        vendor_err: u32,
        byte_len: u32,
        ex: u32,
        qp_num: u32,
        src_qp: u32,
        wc_flags: u32,
        pkey_index: u16,
        slid: u16,
        sl: u8,
        dlid_path_bits: u8,
        port_num: u8,
        reserved: u8,
    }
    struct CompEventDesc = "struct ib_uverbs_comp_event_desc" {
        cq_handle: u64,
    }
}

answers! {
    GetContext, QueryDevice, ExQueryDevice, QueryPort, AllocPd, RegMr, AllocMw, CreateAh,
    CreateCompChannel, CreateCq, ExCreateCq, ResizeCq, DestroyCq, CreateQp, ExCreateQp, QueryQp,
    QpAttr, DestroyQp, CreateSrq, QuerySrq, DestroySrq,
}

impl ExCreateCq {
    /// An answer with all fields that there are.
    pub fn new(base: CreateCq) -> Self {
        Self { base, comp_mask: 0, response_length: size_of::<Self>() as u32 }
    }
}

impl ExCreateQp {
    /// An answer with all fields that there are.
    pub fn new(base: CreateQp) -> Self {
        Self { base, comp_mask: 0, response_length: size_of::<Self>() as u32 }
    }
}
