//! The files under `SYSFS_PATH`, from which both libraries learn of the device.
//!
//! They are real files, since the libraries list folders by calls that cannot be intercepted. The
//! time stamp of the device's folder is part of its identity, so nothing in a tree is touched
//! once it is in place.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::client::Device;
use crate::device::{Addresses, GID_TABLE_LEN};

/// Version of the uverbs commands.
const UVERBS_ABI: &str = "6";
/// Version of the rxe provider's part of them.
const RXE_ABI: &str = "2";
/// Version of the connection manager's commands.
const UCMA_ABI: &str = "4";

/// Where devices are that have no bus.
const VIRTUAL: &str = "devices/virtual";

/// How the names of trees begin, and of those that are not complete.
const FINISHED: &str = "sys-";
const UNFINISHED: &str = "new-";

/// Where the tree of a device is.
pub fn tree(dir: &Path, device: &str) -> PathBuf {
    dir.join(format!("{FINISHED}{device}"))
}

/// Whether a name in a fabric's folder is a tree's.
pub fn is_tree(name: &str) -> bool {
    name.starts_with(FINISHED) || name.starts_with(UNFINISHED)
}

/// Writes the tree of a device, which appears when it is complete. The caller holds the lock of
/// the fabric's folder.
pub fn write(dir: &Path, device: &str, node_guid: u64, addresses: &Addresses) -> io::Result<()> {
    let unfinished = dir.join(format!("{UNFINISHED}{device}"));
    match fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let uverbs = create(&unfinished, "infiniband_verbs", "uverbs0")?;
    write_uverbs(&uverbs, device)?;
    files(&unfinished.join("class/infiniband_verbs"), [("abi_version", UVERBS_ABI)])?;
    write_device(&create(&unfinished, "infiniband", device)?, node_guid, addresses)?;
    write_cm(&unfinished.join("class/misc/rdma_cm"))?;
    fs::rename(&unfinished, tree(dir, device))
}

fn files<'a>(dir: &Path, files: impl IntoIterator<Item = (&'a str, &'a str)>) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    files.into_iter().try_for_each(|(name, text)| fs::write(dir.join(name), format!("{text}\n")))
}

fn number(device: Device) -> String {
    let (major, minor) = device.number();
    format!("{major}:{minor}")
}

/// The folder of a device without a bus, as the kernel has it: it is not in its class, which has a
/// link to it.
fn create(root: &Path, class: &str, device: &str) -> io::Result<PathBuf> {
    let (devices, links) = (root.join(VIRTUAL).join(class), root.join("class").join(class));
    fs::create_dir_all(devices.join(device))?;
    fs::create_dir_all(&links)?;
    symlink(Path::new("../..").join(VIRTUAL).join(class).join(device), links.join(device))?;
    symlink(Path::new("../../../../class").join(class), devices.join(device).join("subsystem"))?;
    Ok(devices.join(device))
}

fn write_uverbs(dir: &Path, device: &str) -> io::Result<()> {
    let own = [("ibdev", device), ("dev", &number(Device::Uverbs)), ("abi_version", RXE_ABI)];
    files(dir, own)
}

fn write_cm(dir: &Path) -> io::Result<()> {
    files(dir, [("abi_version", UCMA_ABI), ("dev", &number(Device::Cm))])
}

fn write_device(dir: &Path, node_guid: u64, addresses: &Addresses) -> io::Result<()> {
    let guid = hex_groups(&node_guid.to_be_bytes());
    let own = [
        ("node_type", "1: CA"),
        ("node_guid", &guid),
        ("sys_image_guid", &guid),
        ("node_desc", "rxe"),
        ("fw_ver", ""),
        ("parent", addresses.netdev()),
    ];
    files(dir, own)?;
    // rxe has no such folder; a card has, and programs look there for the interface's name.
    fs::create_dir_all(dir.join("device/net").join(addresses.netdev()))?;
    let port = dir.join("ports/1");
    let state = [
        ("state", "4: ACTIVE"),
        ("phys_state", "5: LinkUp"),
        ("rate", "10 Gb/sec (1X FDR10)"),
        ("lid", "0x0"),
        ("lid_mask_count", "0"),
        ("sm_lid", "0x0"),
        ("sm_sl", "0"),
        ("cap_mask", "0x00010000"),
        ("link_layer", "Ethernet"),
    ];
    files(&port, state)?;
    files(&port.join("pkeys"), [("0", "0xffff")])?;
    write_gids(&port, addresses)
}

/// One file for each slot of the table. An empty one has a zero GID and, as any other failure to
/// read would stop `ibv_query_gid_table`, a type; it has no interface.
fn write_gids(port: &Path, addresses: &Addresses) -> io::Result<()> {
    let names: Vec<String> = (0..GID_TABLE_LEN).map(|index| index.to_string()).collect();
    let gids: Vec<String> =
        (0..GID_TABLE_LEN as u8).map(|index| hex_groups(&addresses.gid(index))).collect();
    let used = addresses.gids();
    let kind = |index| if index < used.len() { "RoCE v2" } else { "IB/RoCE v1" };
    let name = names.iter().map(String::as_str);
    let attributes = port.join("gid_attrs");
    files(&port.join("gids"), name.clone().zip(gids.iter().map(String::as_str)))?;
    files(&attributes.join("types"), name.clone().enumerate().map(|(i, name)| (name, kind(i))))?;
    let netdevs = used.iter().map(|entry| entry.netdev.as_str());
    files(&attributes.join("ndevs"), name.zip(netdevs))
}

/// Bytes as the kernel prints GUIDs and GIDs: hexadecimal, in groups of two.
fn hex_groups(bytes: &[u8]) -> String {
    let group = |pair: &[u8]| pair.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(2).map(group).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_libraries_read() {
        let dir = std::env::temp_dir().join(format!("soft-hca-sysfs-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let addresses = Addresses::local();
        // What an interrupted start has left does no harm.
        fs::create_dir_all(dir.join("new-rxe7/class/rest")).unwrap();
        write(&dir, "rxe7", 0x0273_5cff_fed2_226d, &addresses).unwrap();
        let class = tree(&dir, "rxe7").join("class");
        let read = |path: &str| fs::read_to_string(class.join(path)).unwrap();
        assert_eq!(read("infiniband_verbs/abi_version"), "6\n");
        assert_eq!(read("infiniband_verbs/uverbs0/ibdev"), "rxe7\n");
        assert_eq!(read("infiniband_verbs/uverbs0/dev"), "231:192\n");
        assert_eq!(read("infiniband/rxe7/node_guid"), "0273:5cff:fed2:226d\n");
        assert_eq!(read("infiniband/rxe7/fw_ver"), "\n");
        assert_eq!(read("misc/rdma_cm/abi_version"), "4\n");
        let port = |path: &str| read(&format!("infiniband/rxe7/ports/1/{path}"));
        assert_eq!(port("gid_attrs/types/1"), "RoCE v2\n");
        assert_eq!(port("gid_attrs/types/15"), "IB/RoCE v1\n");
        assert_eq!(port("gids/15"), "0000:0000:0000:0000:0000:0000:0000:0000\n");
        assert!(port("gids/1").starts_with("0000:0000:0000:0000:0000:ffff:"));
        assert_eq!(port("gid_attrs/ndevs/1").trim_end(), addresses.netdev());
        assert!(class.join("infiniband/rxe7/device/net").join(addresses.netdev()).is_dir());
        assert!(!class.join("infiniband/rxe7/ports/1/gid_attrs/ndevs/15").exists());
        assert!(!class.join("rest").exists());
        let link = |path: &str| fs::read_link(class.join(path)).unwrap();
        let place = Path::new("../../devices/virtual");
        assert_eq!(link("infiniband/rxe7"), place.join("infiniband/rxe7"));
        assert_eq!(link("infiniband_verbs/uverbs0"), place.join("infiniband_verbs/uverbs0"));
        let found = fs::canonicalize(class.join("infiniband/rxe7/subsystem")).unwrap();
        assert_eq!(found, fs::canonicalize(class.join("infiniband")).unwrap());
        fs::remove_dir_all(&dir).unwrap();
    }
}
