//! The words of the verbs as rings and the arena have them, where any value may stand: plain numbers, of
//! which [`soft_hca_verbs`] has the types and the names. Beside them is what only the kernel's
//! `include/rdma/ib_verbs.h` has.

pub use soft_hca_roce::wire::bth::{Psn, Qpn};
pub use soft_hca_verbs::numbers::{
    access, event, mw_type, odp, opcode, placement, qp_type, selectivity, send_flag, state, status,
    wc_flag, wc_opcode,
};
pub use soft_hca_verbs::{
    AccessFlags, DeviceLimit, ErrorNumber, EventType, Mtu, PortState, QpAttrMask, QpState, QpType,
    SrqAttrMask, Transition, WrOpcode,
};

/// The value that RoCE adapters put where a completion has the service level: the type of the network that a
/// datagram came by (`rdma_network_type`), with the bit that says that it is RoCE v2. UCX finds the
/// IP header by it.
pub mod network_type {
    #![allow(missing_docs, reason = "the names are the kernel's")]
    const ROCE_V2: u8 = 8;
    pub const IPV6: u8 = 1 | ROCE_V2;
    pub const IPV4: u8 = 2 | ROCE_V2;
}

/// The device has on-demand paging (`IB_ODP_SUPPORT`).
pub const ODP_SUPPORT: u64 = 1;

/// Capabilities of a device that only the extended QUERY_DEVICE tells of (`ib_device_cap_flags`).
pub mod capability {
    #![allow(missing_docs, reason = "the names are the kernel's")]
    pub const FLUSH_GLOBAL: u64 = 1 << 38;
    pub const FLUSH_PERSISTENT: u64 = 1 << 39;
    pub const ATOMIC_WRITE: u64 = 1 << 40;
}

/// A Q_Key with this bit in a send work request stands for that of the sending queue pair
/// (`IB_QP_SET_QKEY`; IBTA 10.2.5, controlled Q_Keys).
pub const SET_QKEY: u32 = 1 << 31;
