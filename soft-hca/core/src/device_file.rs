//! The files by which programs reach a device.

use std::fmt;

/// How the names of device files begin that exist only here; their number follows.
const UVERBS_PATH: &str = "/dev/infiniband/uverbs";
/// As many numbers as the kernel has minor numbers for (`IB_UVERBS_MAX_DEVICES`).
const MAX_DEVICES: u32 = 32;
/// The connection manager's device file.
pub const CM_PATH: &str = "/dev/infiniband/rdma_cm";

/// A device file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceFile {
    /// `/dev/infiniband/uverbs0` and so on, by number.
    Uverbs(u32),
    /// `/dev/infiniband/rdma_cm`
    Cm,
}

impl DeviceFile {
    /// The device file that a path names, if it names one.
    pub fn of_path(path: &[u8]) -> Option<Self> {
        if path == CM_PATH.as_bytes() {
            return Some(Self::Cm);
        }
        let digits = std::str::from_utf8(path).ok()?.strip_prefix(UVERBS_PATH)?;
        let number: u32 = digits.parse().ok()?;
        let is_name = number < MAX_DEVICES && number.to_string() == digits;
        is_name.then_some(Self::Uverbs(number))
    }

    /// Major and minor number, as the tree under `SYSFS_PATH` has them.
    pub fn number(self) -> (u32, u32) {
        match self {
            Self::Uverbs(number) => (231, 192 + number),
            Self::Cm => (10, 124),
        }
    }
}

impl fmt::Display for DeviceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uverbs(number) => write!(f, "{UVERBS_PATH}{number}"),
            Self::Cm => f.write_str(CM_PATH),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_device_files() {
        let file = |name: &str| DeviceFile::of_path(format!("/dev/infiniband/{name}").as_bytes());
        assert_eq!(file("uverbs0"), Some(DeviceFile::Uverbs(0)));
        assert_eq!(file("uverbs31"), Some(DeviceFile::Uverbs(31)));
        assert_eq!(file("rdma_cm"), Some(DeviceFile::Cm));
        for file in [DeviceFile::Uverbs(31), DeviceFile::Cm] {
            assert_eq!(DeviceFile::of_path(file.to_string().as_bytes()), Some(file));
        }
        for other in ["uverbs", "uverbs32", "uverbs00", "uverbs+1", "uverbs1x", "umad0"] {
            assert_eq!(file(other), None, "{other}");
        }
        assert_eq!(DeviceFile::Uverbs(2).number(), (231, 194));
    }
}
