//! The words of the verbs: numbers and flags that the IBTA specification (volume 1, chapters 10
//! and 11) and the kernel's `include/rdma/ib_verbs.h` have, each once, by the kernel's names.
//!
//! Numbers are plain words of 32 bits, for they come from rings and lie in the arena, where any
//! value may stand. What has an arithmetic or is easily mistaken for something else is a type.

use bitflags::bitflags;

pub use soft_hca_roce::wire::bth::{Psn, Qpn};

/// Opcodes of send work requests (`ib_wr_opcode`).
pub mod opcode {
    named_numbers!("IB_WR_":
        RDMA_WRITE = 0,
        RDMA_WRITE_WITH_IMM = 1,
        SEND = 2,
        SEND_WITH_IMM = 3,
        RDMA_READ = 4,
        ATOMIC_CMP_AND_SWP = 5,
        ATOMIC_FETCH_AND_ADD = 6,
        LOCAL_INV = 7,
        BIND_MW = 8,
        SEND_WITH_INV = 9,
        TSO = 10,
        FLUSH = 14,
        ATOMIC_WRITE = 15,
    );

    /// Whether a request's payload goes into a receive work request's memory.
    pub(crate) fn is_send(opcode: u32) -> bool {
        matches!(opcode, SEND | SEND_WITH_IMM | SEND_WITH_INV)
    }

    /// Whether a request is completed by a response of its own and not by an acknowledgement, so that
    /// `max_rd_atomic` counts it (IBTA volume 1, 9.7.4.1.2; annex A19).
    pub(crate) fn has_response(opcode: u32) -> bool {
        matches!(
            opcode,
            RDMA_READ | ATOMIC_CMP_AND_SWP | ATOMIC_FETCH_AND_ADD | FLUSH | ATOMIC_WRITE
        )
    }
}

/// Flags of send work requests (`ib_send_flags`).
pub mod send_flag {
    named_numbers!("IB_SEND_": FENCE = 1, SIGNALED = 2, SOLICITED = 4, INLINE = 8);
}

/// Statuses of completions (`ib_wc_status`).
pub mod status {
    named_numbers!("IB_WC_":
        SUCCESS = 0,
        LOC_LEN_ERR = 1,
        LOC_QP_OP_ERR = 2,
        LOC_PROT_ERR = 4,
        WR_FLUSH_ERR = 5,
        MW_BIND_ERR = 6,
        BAD_RESP_ERR = 7,
        LOC_ACCESS_ERR = 8,
        REM_INV_REQ_ERR = 9,
        REM_ACCESS_ERR = 10,
        REM_OP_ERR = 11,
        RETRY_EXC_ERR = 12,
        RNR_RETRY_EXC_ERR = 13,
    );
}

/// Opcodes of completions (`ib_wc_opcode`).
pub mod wc_opcode {
    named_numbers!("IB_WC_":
        SEND = 0,
        RDMA_WRITE = 1,
        RDMA_READ = 2,
        COMP_SWAP = 3,
        FETCH_ADD = 4,
        BIND_MW = 5,
        LOCAL_INV = 6,
        FLUSH = 8,
        ATOMIC_WRITE = 9,
        RECV = 128,
        RECV_RDMA_WITH_IMM = 129,
    );
}

/// Flags of completions, as libibverbs defines them (`ibv_wc_flags`).
pub mod wc_flag {
    #![allow(missing_docs, reason = "the names are the specification's")]
    pub const GRH: u32 = 1;
    pub const WITH_IMM: u32 = 2;
    /// As libibverbs defines it. Soft-RoCE lets the kernel's own number, 4, through, which
    /// programs read as "IP checksum is right".
    pub const WITH_INV: u32 = 8;
}

/// What RoCE adapters put where a completion has the service level: the type of the network that a
/// datagram came by (`rdma_network_type`), with the bit that says that it is RoCE v2. UCX finds the
/// IP header by it.
pub mod network_type {
    #![allow(missing_docs, reason = "the names are the kernel's")]
    const ROCE_V2: u8 = 8;
    pub const IPV6: u8 = 1 | ROCE_V2;
    pub const IPV4: u8 = 2 | ROCE_V2;
}

/// Access flags of regions, windows and queue pairs (`ib_access_flags`).
pub mod access {
    named_numbers!("IB_ACCESS_":
        LOCAL_WRITE = 1,
        REMOTE_WRITE = 2,
        REMOTE_READ = 4,
        REMOTE_ATOMIC = 8,
        MW_BIND = 16,
        ZERO_BASED = 32,
        ON_DEMAND = 64,
        HUGETLB = 128,
        FLUSH_GLOBAL = 256,
        FLUSH_PERSISTENT = 512,
    );

    /// All that lets a peer at the memory.
    pub const REMOTE: u32 =
        REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC | FLUSH_GLOBAL | FLUSH_PERSISTENT;
    /// What a region or window must not allow unless its memory may be written locally.
    pub const REMOTE_MODIFY: u32 = REMOTE_WRITE | REMOTE_ATOMIC;
    /// Flags that a device may ignore (`IB_ACCESS_OPTIONAL`).
    pub const OPTIONAL: u32 = 0x3ff0_0000;
}

/// Operations of queue pairs on memory with on-demand paging (`ib_odp_transport_cap_bits`).
pub mod odp {
    named_numbers!("IB_ODP_SUPPORT_":
        SEND = 1,
        RECV = 2,
        WRITE = 4,
        READ = 8,
        ATOMIC = 16,
        SRQ_RECV = 32,
        FLUSH = 64,
        ATOMIC_WRITE = 128,
    );

    /// `IB_ODP_SUPPORT`: the device has on-demand paging.
    pub const SUPPORT: u64 = 1;
}

/// What an RDMA FLUSH guarantees for what was written before it, bits (`ib_placement_type`, IBTA
/// volume 1, A19.4.1.1).
pub mod placement {
    named_numbers!("IB_FLUSH_": GLOBAL = 1, PERSISTENT = 2);
}

/// Of which memory an RDMA FLUSH guarantees it (`ib_selectivity_level`, IBTA volume 1, A19.4.1.2).
pub mod selectivity {
    named_numbers!("IB_FLUSH_": RANGE = 0, MR = 1);
}

/// What a device can, of which only the extended QUERY_DEVICE tells (`ib_device_cap_flags`).
pub mod capability {
    #![allow(missing_docs, reason = "the names are the kernel's")]
    pub const FLUSH_GLOBAL: u64 = 1 << 38;
    pub const FLUSH_PERSISTENT: u64 = 1 << 39;
    pub const ATOMIC_WRITE: u64 = 1 << 40;
}

/// Types of memory windows (`ib_mw_type`).
pub mod mw_type {
    named_numbers!("IB_MW_": TYPE_1 = 1, TYPE_2 = 2);
}

/// Types of queue pairs (`ib_qp_type`).
pub mod qp_type {
    named_numbers!("IB_QPT_":
        RC = 2,
        UC = 3,
        UD = 4,
        RAW_PACKET = 8,
        XRC_INI = 9,
        XRC_TGT = 10,
    );
}

/// States of queue pairs (`ib_qp_state`).
pub mod state {
    named_numbers!("IB_QPS_": RESET = 0, INIT = 1, RTR = 2, RTS = 3, SQD = 4, SQE = 5, ERR = 6);
}

/// Path MTUs (`ib_mtu`).
pub mod mtu {
    named_numbers!("IB_": MTU_256 = 1, MTU_512 = 2, MTU_1024 = 3, MTU_2048 = 4, MTU_4096 = 5);

    /// Bytes of payload that a packet has at most. What is no MTU counts as the nearest one.
    pub fn bytes(mtu: u32) -> u32 {
        128 << mtu.clamp(MTU_256, MTU_4096)
    }
}

/// Asynchronous events (`ib_event_type`).
pub mod event {
    named_numbers!("IB_EVENT_":
        CQ_ERR = 0,
        QP_FATAL = 1,
        QP_REQ_ERR = 2,
        QP_ACCESS_ERR = 3,
        SQ_DRAINED = 5,
        PATH_MIG = 6,
        PATH_MIG_ERR = 7,
        DEVICE_FATAL = 8,
        PORT_ACTIVE = 9,
        PORT_ERR = 10,
        SRQ_LIMIT_REACHED = 15,
        QP_LAST_WQE_REACHED = 16,
        CLIENT_REREGISTER = 17,
    );
}

bitflags! {
    /// Attributes of a queue pair that a MODIFY_QP gives (`ib_qp_attr_mask`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct QpAttrMask: u32 {
        /// `IB_QP_STATE`
        const STATE = 1;
        /// `IB_QP_CUR_STATE`
        const CUR_STATE = 1 << 1;
        /// `IB_QP_EN_SQD_ASYNC_NOTIFY`
        const EN_SQD_ASYNC_NOTIFY = 1 << 2;
        /// `IB_QP_ACCESS_FLAGS`
        const ACCESS_FLAGS = 1 << 3;
        /// `IB_QP_PKEY_INDEX`
        const PKEY_INDEX = 1 << 4;
        /// `IB_QP_PORT`
        const PORT = 1 << 5;
        /// `IB_QP_QKEY`
        const QKEY = 1 << 6;
        /// `IB_QP_AV`
        const AV = 1 << 7;
        /// `IB_QP_PATH_MTU`
        const PATH_MTU = 1 << 8;
        /// `IB_QP_TIMEOUT`
        const TIMEOUT = 1 << 9;
        /// `IB_QP_RETRY_CNT`
        const RETRY_CNT = 1 << 10;
        /// `IB_QP_RNR_RETRY`
        const RNR_RETRY = 1 << 11;
        /// `IB_QP_RQ_PSN`
        const RQ_PSN = 1 << 12;
        /// `IB_QP_MAX_QP_RD_ATOMIC`
        const MAX_QP_RD_ATOMIC = 1 << 13;
        /// `IB_QP_ALT_PATH`
        const ALT_PATH = 1 << 14;
        /// `IB_QP_MIN_RNR_TIMER`
        const MIN_RNR_TIMER = 1 << 15;
        /// `IB_QP_SQ_PSN`
        const SQ_PSN = 1 << 16;
        /// `IB_QP_MAX_DEST_RD_ATOMIC`
        const MAX_DEST_RD_ATOMIC = 1 << 17;
        /// `IB_QP_PATH_MIG_STATE`
        const PATH_MIG_STATE = 1 << 18;
        /// `IB_QP_CAP`
        const CAP = 1 << 19;
        /// `IB_QP_DEST_QPN`
        const DEST_QPN = 1 << 20;
    }

    /// Attributes of a shared receive queue that a MODIFY_SRQ gives (`ib_srq_attr_mask`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SrqAttrMask: u32 {
        /// `IB_SRQ_MAX_WR`
        const MAX_WR = 1;
        /// `IB_SRQ_LIMIT`
        const LIMIT = 2;
    }
}

/// What the usual changes of state come with.
impl QpAttrMask {
    const BASIC: Self = Self::STATE.union(Self::PKEY_INDEX).union(Self::PORT);
    /// RESET to INIT, connected types.
    pub const INIT: Self = Self::BASIC.union(Self::ACCESS_FLAGS);
    /// RESET to INIT, datagrams.
    pub const INIT_UD: Self = Self::BASIC.union(Self::QKEY);
    /// INIT to RTR, unreliable connections.
    pub const RTR_UC: Self =
        Self::STATE.union(Self::AV).union(Self::PATH_MTU).union(Self::DEST_QPN).union(Self::RQ_PSN);
    /// INIT to RTR, reliable connections.
    pub const RTR_RC: Self =
        Self::RTR_UC.union(Self::MAX_DEST_RD_ATOMIC).union(Self::MIN_RNR_TIMER);
    /// RTR to RTS, unreliable types.
    pub const RTS: Self = Self::STATE.union(Self::SQ_PSN);
    /// RTR to RTS, reliable connections.
    pub const RTS_RC: Self = Self::RTS
        .union(Self::TIMEOUT)
        .union(Self::RETRY_CNT)
        .union(Self::RNR_RETRY)
        .union(Self::MAX_QP_RD_ATOMIC);
}

/// A Q_Key with this bit in a send work request stands for that of the sending queue pair
/// (`IB_QP_SET_QKEY`; IBTA 10.2.5, controlled Q_Keys).
pub const SET_QKEY: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mtu_has_bytes() {
        assert_eq!([1, 2, 3, 4, 5].map(mtu::bytes), [256, 512, 1024, 2048, 4096]);
        assert_eq!([0, 9].map(mtu::bytes), [256, 4096]);
    }

    #[test]
    fn masks_as_the_kernel_gives_them() {
        let masks = [QpAttrMask::INIT, QpAttrMask::INIT_UD, QpAttrMask::RTR_RC, QpAttrMask::RTS_RC];
        assert_eq!(masks.map(|mask| mask.bits()), [0x39, 0x71, 0x129181, 0x12e01]);
    }

    #[test]
    fn statuses_can_be_asked_for_as_faults() {
        for number in 0..=u8::MAX.into() {
            if let Some(name) = status::name(number) {
                assert_eq!(name.parse(), Ok(soft_hca_fault::Status(number)), "{name}");
            }
        }
    }

    #[test]
    fn numbers_have_names() {
        assert_eq!(state::name(state::SQE), Some("SQE"));
        assert_eq!(qp_type::name(5), None);
    }
}
