//! Numbers by rdma-core's names.

use soft_hca_core::uapi::verbs::{access, opcode, status};
use soft_hca_daemon::sysfs::hex_groups;
use soft_hca_record::{Named, Value};

/// A constant by rdma-core's name, or its number where it has none.
pub(super) fn constant(prefix: &str, name: Option<&str>, number: u32) -> String {
    name.map_or_else(|| number.to_string(), |name| format!("{prefix}{name}"))
}

/// Flags by their names, joined by `|`; `0` for none.
pub(super) fn flags(prefix: &str, name: fn(u32) -> Option<&'static str>, set: u32) -> String {
    match flag_list(prefix, name, set) {
        list if list.is_empty() => "0".into(),
        list => list.join("|"),
    }
}

pub(super) fn flag_list(
    prefix: &str,
    name: fn(u32) -> Option<&'static str>,
    set: u32,
) -> Vec<String> {
    let bits = (0..32).map(|bit| 1 << bit).filter(|bit| set & bit != 0);
    let word = |bit| name(bit).map_or(format!("{bit:#x}"), |name| format!("{prefix}{name}"));
    bits.map(word).collect()
}

/// A GID as tools print it.
pub(in crate::record) fn gid(bytes: [u8; 16]) -> String {
    hex_groups(&bytes)
}

pub(super) fn status_name(number: u32) -> String {
    constant("IBV_WC_", status::name(number), number)
}

pub(super) fn opcode_name(number: u32) -> String {
    constant("IBV_WR_", opcode::name(number), number)
}

pub(super) fn access_names(set: u32) -> String {
    flags("IBV_ACCESS_", access::name, set)
}

/// A value with its name.
pub(super) fn named(name: &str, value: impl Into<Value>) -> Named {
    Named(name.into(), value.into())
}
