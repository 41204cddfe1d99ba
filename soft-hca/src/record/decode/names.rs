//! Values of calls with their names.

use soft_hca_daemon::sysfs::hex_groups;
use soft_hca_record::{Named, Value};

/// A GID as tools print it.
pub(in crate::record) fn gid(bytes: [u8; 16]) -> String {
    hex_groups(&bytes)
}

/// A value with its name.
pub(super) fn named(name: &str, value: impl Into<Value>) -> Named {
    Named(name.into(), value.into())
}
