//! The agreement of a provider library (`librxe` and its kind) with its driver, and the driver's
//! description of the hardware in sysfs.

/// A kind of device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Version of the provider's part of the uverbs commands (`uverbs_abi_ver`).
    pub abi_version: u32,
    /// The hardware's maker.
    pub vendor_id: u32,
    /// `node_type` of a channel adapter is 1.
    pub node_type: u8,
    /// `node_desc` in sysfs.
    pub node_desc: String,
    /// `fw_ver` in sysfs.
    pub fw_ver: String,
    /// Bytes of a send work request before its SGEs or inline data.
    pub send_wqe_bytes: u32,
    /// Bytes of a receive work request before its SGEs.
    pub recv_wqe_bytes: u32,
    /// Bytes of an SGE.
    pub sge_bytes: u32,
    /// Bytes of a completion's slot.
    pub cqe_bytes: u32,
}

impl Provider {
    /// Bytes behind a send work request's fixed part: for SGEs or for inline data.
    pub(crate) fn send_room(&self, max_sge: u32, max_inline: u32) -> u32 {
        (max_sge * self.sge_bytes).max(max_inline)
    }

    /// Bytes of a send work request with so much room.
    pub(crate) fn send_slot(&self, room: u32) -> u32 {
        self.send_wqe_bytes + room
    }

    /// Bytes of a receive work request with so many SGEs.
    pub(crate) fn recv_slot(&self, max_sge: u32) -> u32 {
        self.recv_wqe_bytes + max_sge * self.sge_bytes
    }
}
