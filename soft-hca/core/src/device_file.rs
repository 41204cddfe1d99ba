//! The files by which programs reach a device.

/// Device files that exist only here.
pub const UVERBS_PATH: &str = "/dev/infiniband/uverbs0";
/// The connection manager's device file.
pub const CM_PATH: &str = "/dev/infiniband/rdma_cm";

/// A device file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceFile {
    /// `/dev/infiniband/uverbs0`
    Uverbs,
    /// `/dev/infiniband/rdma_cm`
    Cm,
}

impl DeviceFile {
    /// The device file that a path names, if it names one.
    pub fn of_path(path: &[u8]) -> Option<Self> {
        if path == UVERBS_PATH.as_bytes() {
            Some(Self::Uverbs)
        } else if path == CM_PATH.as_bytes() {
            Some(Self::Cm)
        } else {
            None
        }
    }

    /// Major and minor number, as the tree under `SYSFS_PATH` has them.
    pub fn number(self) -> (u32, u32) {
        match self {
            Self::Uverbs => (231, 192),
            Self::Cm => (10, 124),
        }
    }
}
