//! Words of completions.

words! {
    /// Statuses of completions (`enum ibv_wc_status`).
    WcStatus, status, "IBV_WC_":
    SUCCESS = 0,
    LOC_LEN_ERR = 1,
    LOC_QP_OP_ERR = 2,
    LOC_EEC_OP_ERR = 3,
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
    LOC_RDD_VIOL_ERR = 14,
    REM_INV_RD_REQ_ERR = 15,
    REM_ABORT_ERR = 16,
    INV_EECN_ERR = 17,
    INV_EEC_STATE_ERR = 18,
    FATAL_ERR = 19,
    RESP_TIMEOUT_ERR = 20,
    GENERAL_ERR = 21,
    TM_ERR = 22,
    TM_RNDV_INCOMPLETE = 23,
}

words! {
    /// Opcodes of completions (`enum ibv_wc_opcode`).
    WcOpcode, wc_opcode, "IBV_WC_":
    SEND = 0,
    RDMA_WRITE = 1,
    RDMA_READ = 2,
    COMP_SWAP = 3,
    FETCH_ADD = 4,
    BIND_MW = 5,
    LOCAL_INV = 6,
    TSO = 7,
    FLUSH = 8,
    ATOMIC_WRITE = 9,
    RECV = 128,
    RECV_RDMA_WITH_IMM = 129,
    TM_ADD = 130,
    TM_DEL = 131,
    TM_SYNC = 132,
    TM_RECV = 133,
    TM_NO_TAG = 134,
    DRIVER1 = 135,
    DRIVER2 = 136,
    DRIVER3 = 137,
}

impl WcOpcode {
    /// Whether it is of a receive: programs test the bit of `IBV_WC_RECV`.
    #[inline]
    pub const fn is_receive(self) -> bool {
        matches!(self, Self::RECV | Self::RECV_RDMA_WITH_IMM)
    }
}

flags! {
    /// Flags of completions (`enum ibv_wc_flags`).
    WcFlags, wc_flag, "IBV_WC_":
    GRH = 1,
    WITH_IMM = 2,
    IP_CSUM_OK = 4,
    // Soft-RoCE lets the kernel's own number, 4, through, which programs read as the one before.
    WITH_INV = 8,
    TM_SYNC_REQ = 16,
    TM_MATCH = 32,
    TM_DATA_VALID = 64,
}
