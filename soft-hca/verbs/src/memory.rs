//! Words of memory regions and windows.

flags! {
    /// Access flags of regions, windows and queue pairs (`enum ibv_access_flags`).
    AccessFlags, access, "IBV_ACCESS_":
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
    RELAXED_ORDERING = 1 << 20,
}

impl AccessFlags {
    /// All that lets a peer at the memory.
    pub const REMOTE: Self = Self::REMOTE_MODIFY
        .union(Self::REMOTE_READ)
        .union(Self::FLUSH_GLOBAL)
        .union(Self::FLUSH_PERSISTENT);
    /// Access that a region or window must not allow unless its memory may be written locally.
    pub const REMOTE_MODIFY: Self = Self::REMOTE_WRITE.union(Self::REMOTE_ATOMIC);
    /// Flags that a device may ignore (`IBV_ACCESS_OPTIONAL_RANGE`).
    pub const OPTIONAL: Self = Self::from_bits_retain(0x3ff0_0000);
}

words! {
    /// Types of memory windows (`enum ibv_mw_type`).
    MwType, mw_type, "IBV_MW_":
    TYPE_1 = 1,
    TYPE_2 = 2,
}

flags! {
    /// Operations of queue pairs on memory with on-demand paging (`enum ibv_odp_transport_cap_bits`).
    OdpCaps, odp, "IBV_ODP_SUPPORT_":
    SEND = 1,
    RECV = 2,
    WRITE = 4,
    READ = 8,
    ATOMIC = 16,
    SRQ_RECV = 32,
    FLUSH = 64,
    ATOMIC_WRITE = 128,
}
