//! Limits of a device: `struct ib_device_attr`, whose names the fields have.

/// Limits and capabilities of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the kernel's")]
pub struct Limits {
    pub device_cap_flags: u32,
    /// Those that only the extended QUERY_DEVICE has room for, of `uapi::verbs::capability`.
    pub device_cap_flags_ex: u64,
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub max_qp: u32,
    /// Work requests of a send queue. QUERY_DEVICE tells the smaller one of this and the next.
    pub max_send_wr: u32,
    /// Work requests of a receive queue.
    pub max_recv_wr: u32,
    /// SGEs of a send. QUERY_DEVICE tells the smaller one of this and the next.
    pub max_send_sge: u32,
    /// SGEs of a receive.
    pub max_recv_sge: u32,
    /// SGEs of an RDMA read.
    pub max_sge_rd: u32,
    /// Bytes that a work request may carry inline. QUERY_DEVICE does not tell.
    pub max_inline_data: u32,
    pub max_cq: u32,
    /// Completions that a completion queue may hold.
    pub max_cqe: u32,
    pub max_mr: u32,
    pub max_pd: u32,
    /// Outstanding reads and atomics of a queue pair as responder.
    pub max_qp_rd_atom: u8,
    /// The same of all queue pairs.
    pub max_res_rd_atom: u32,
    /// Outstanding reads and atomics of a queue pair as requester.
    pub max_qp_init_rd_atom: u8,
    /// `ib_atomic_cap`
    pub atomic_cap: u32,
    pub max_mw: u32,
    pub max_mcast_grp: u32,
    pub max_mcast_qp_attach: u32,
    pub max_total_mcast_qp_attach: u32,
    pub max_ah: u32,
    pub max_srq: u32,
    /// Work requests of a shared receive queue.
    pub max_srq_wr: u32,
    /// SGEs of a shared receive queue's request.
    pub max_srq_sge: u32,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    /// Completion vectors (`ib_device.num_comp_vectors`).
    pub num_comp_vectors: u32,
    /// Whether there are queue pairs of type RC.
    pub has_rc: bool,
    /// Whether there are queue pairs of type UC.
    pub has_uc: bool,
    /// Whether programs can have queue pairs of type UD.
    pub has_ud: bool,
    /// Whether there are shared receive queues.
    pub has_srq: bool,
}
