//! Words of work requests.

words! {
    /// Opcodes of send work requests (`enum ibv_wr_opcode`).
    WrOpcode, opcode, "IBV_WR_":
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
    DRIVER1 = 11,
    FLUSH = 14,
    ATOMIC_WRITE = 15,
}

impl WrOpcode {
    /// Whether the payload goes into a receive work request's memory.
    #[inline]
    pub const fn is_send(self) -> bool {
        matches!(self, Self::SEND | Self::SEND_WITH_IMM | Self::SEND_WITH_INV)
    }

    /// Whether it comes with immediate data.
    #[inline]
    pub const fn has_imm(self) -> bool {
        matches!(self, Self::SEND_WITH_IMM | Self::RDMA_WRITE_WITH_IMM)
    }

    /// Whether it consumes a receive work request of the peer.
    #[inline]
    pub const fn takes_receive(self) -> bool {
        self.is_send() || self.has_imm()
    }

    /// Whether it is an atomic operation that gives back what was there.
    #[inline]
    pub const fn fetches(self) -> bool {
        matches!(self, Self::ATOMIC_CMP_AND_SWP | Self::ATOMIC_FETCH_AND_ADD)
    }

    /// Whether it is an atomic operation, of eight bytes.
    #[inline]
    pub const fn is_atomic(self) -> bool {
        self.fetches() || matches!(self, Self::ATOMIC_WRITE)
    }

    /// Whether it changes memory of the peer that it names.
    #[inline]
    pub const fn writes(self) -> bool {
        self.is_atomic() || matches!(self, Self::RDMA_WRITE | Self::RDMA_WRITE_WITH_IMM)
    }

    /// Whether a request is completed by a response of its own and not by an acknowledgement, so that
    /// `max_rd_atomic` counts it (IBTA volume 1, 9.7.4.1.2; annex A19).
    #[inline]
    pub const fn has_response(self) -> bool {
        self.is_atomic() || matches!(self, Self::RDMA_READ | Self::FLUSH)
    }
}

flags! {
    /// Flags of send work requests (`enum ibv_send_flags`).
    SendFlags, send_flag, "IBV_SEND_":
    FENCE = 1,
    SIGNALED = 2,
    SOLICITED = 4,
    INLINE = 8,
    IP_CSUM = 16,
}

flags! {
    /// Guarantees of an RDMA FLUSH for earlier writes (`enum ibv_placement_type`, IBTA
    /// volume 1, A19.4.1.1).
    Placement, placement, "IBV_FLUSH_":
    GLOBAL = 1,
    PERSISTENT = 2,
}

words! {
    /// The memory that an RDMA FLUSH is about (`enum ibv_selectivity_level`, IBTA volume 1,
    /// A19.4.1.2).
    Selectivity, selectivity, "IBV_FLUSH_":
    RANGE = 0,
    MR = 1,
}
