//! GUIDs of this machine.

use std::fs;
use std::path::Path;

use soft_hca_core::system;

/// The node's GUID, stable for a fabric's name, a user and a machine.
pub fn node_guid(dir: &Path) -> u64 {
    let fabric = dir.file_name().unwrap_or_default();
    guid_of(&[fabric.as_encoded_bytes(), &system::user().to_le_bytes()])
}

/// A GUID of this machine that depends on `parts`: never 0, marked as made locally.
pub(super) fn guid_of(parts: &[&[u8]]) -> u64 {
    let machine = fs::read("/etc/machine-id").unwrap_or_default();
    let host = fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    let hash = fnv(parts.iter().copied().chain([&machine[..], &host]));
    (hash & !(3 << 56)) | 2 << 56
}

/// Fowler, Noll and Vo's hash, 1a, of parts that are kept apart.
fn fnv<'a>(parts: impl Iterator<Item = &'a [u8]>) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let hash = parts.fold(0xcbf2_9ce4_8422_2325, |hash, part| {
        step(part.iter().fold(hash, |hash, &byte| step(hash, byte)), 0xff)
    });
    // The last bytes reach only the low bits; spread them.
    (hash ^ hash >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_tell_fabrics_apart_and_stay() {
        let guid = node_guid(Path::new("/run/a/soft-hca/one"));
        assert_eq!(guid, node_guid(Path::new("/run/soft-hca/one")));
        assert_ne!(guid, node_guid(Path::new("/run/soft-hca/two")));
        assert_eq!(guid >> 56 & 3, 2);
    }
}
