//! The files under `SYSFS_PATH`, from which both libraries learn of the device.
//!
//! They are real files, since the libraries list folders by calls that cannot be intercepted. The
//! time stamp of the device's folder is part of its identity, so no file appears or goes once a
//! tree is in place; only what is in a port's `state` and `phys_state` changes, and in its counters
//! (`counter_files`). A device that is removed goes as a whole, and has another time stamp when it
//! comes back.

mod attributes;
mod bus;
mod removal;

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use soft_hca_core::device_file::DeviceFile;

use crate::counters::{COUNTERS, PortCounts};
use crate::device::{Device, GidEntry, GidTable, GidType, LinkLayer, Port};

use attributes::files;

pub(crate) use removal::device_changed;

/// Version of the uverbs commands.
const UVERBS_ABI: &str = "6";
/// Version of the connection manager's commands.
const UCMA_ABI: &str = "4";

/// How the names of trees begin, and of those that are not complete.
const FINISHED: &str = "sys-";
const UNFINISHED: &str = "new-";

/// Where the tree with a name is.
pub fn tree(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{FINISHED}{name}"))
}

/// Whether a name in a fabric's folder is a tree's.
pub fn is_tree(name: &str) -> bool {
    name.starts_with(FINISHED) || name.starts_with(UNFINISHED)
}

/// Writes a tree with these devices, which appears when it is complete. The caller holds the lock
/// of the fabric's folder.
pub fn write(dir: &Path, name: &str, devices: &[Device]) -> io::Result<()> {
    let unfinished = dir.join(format!("{UNFINISHED}{name}"));
    match fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for device in devices {
        let index = device.index as u32;
        let place = bus::place(device);
        let uverbs =
            create(&unfinished, &place.join("infiniband_verbs"), &format!("uverbs{index}"))?;
        write_uverbs(&uverbs, index, device)?;
        let folder = create(&unfinished, &place.join("infiniband"), &device.name)?;
        bus::write(&unfinished, [&folder, &uverbs], device)?;
        write_device(&folder, device)?;
    }
    files(&unfinished.join("class/infiniband_verbs"), [("abi_version", UVERBS_ABI)])?;
    write_cm(&unfinished.join("class/misc/rdma_cm"))?;
    fs::rename(&unfinished, tree(dir, name))
}

/// The trees of a fabric that are complete.
fn trees(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let is_finished = |entry: &fs::DirEntry| {
        entry.file_name().to_str().is_some_and(|name| name.starts_with(FINISHED))
    };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(is_finished).map(|entry| entry.path())
}

/// Writes a port's state anew in every tree of the fabric, under whatever name the device has
/// there.
pub(crate) fn port_changed(dir: &Path, device: &Device, number: u8) {
    let Ok(port) = device.port(number) else { return };
    for (_, port_dir) in port_dirs(dir, device, number) {
        let texts = [("state", state(port)), ("phys_state", port.phys_state.to_string())];
        if let Err(error) = files(&port_dir, texts) {
            tracing::warn!("cannot write the state of port {number}: {error}");
        }
    }
}

/// A port's folder in every tree that has its device, under whatever name, and the tree's name.
pub(crate) fn port_dirs(dir: &Path, device: &Device, number: u8) -> Vec<(String, PathBuf)> {
    let port_dir = |tree: PathBuf| {
        let class = tree.join("class");
        let uverbs = class.join(format!("infiniband_verbs/uverbs{}", device.index));
        let name = fs::read_to_string(uverbs.join("ibdev")).ok()?;
        let device_dir = class.join("infiniband").join(name.trim_end());
        let tree = tree.file_name()?.to_str()?.to_owned();
        Some((tree, device_dir.join(format!("ports/{number}"))))
    };
    trees(dir).filter_map(port_dir).collect()
}

/// A file's device number.
fn number(file: DeviceFile) -> String {
    let (major, minor) = file.number();
    format!("{major}:{minor}")
}

/// The folder of a device, as the kernel has it: it is not in its class, which has a link to it.
/// `place` is that of all devices of the class that are on the same bus.
fn create(root: &Path, place: &Path, device: &str) -> io::Result<PathBuf> {
    let class = Path::new("class").join(place.file_name().unwrap_or_default());
    let folder = place.join(device);
    fs::create_dir_all(root.join(&folder))?;
    fs::create_dir_all(root.join(&class))?;
    symlink(Path::new("../..").join(&folder), root.join(&class).join(device))?;
    symlink(bus::way_back(&folder).join(class), root.join(&folder).join("subsystem"))?;
    Ok(root.join(folder))
}

fn write_uverbs(dir: &Path, index: u32, device: &Device) -> io::Result<()> {
    let abi_version = device.provider.abi_version.to_string();
    let number = number(DeviceFile::Uverbs(index));
    files(dir, [("ibdev", device.name.as_str()), ("dev", &number), ("abi_version", &abi_version)])
}

fn write_cm(dir: &Path) -> io::Result<()> {
    files(dir, [("abi_version", UCMA_ABI), ("dev", &number(DeviceFile::Cm))])
}

fn write_device(dir: &Path, device: &Device) -> io::Result<()> {
    let provider = &device.provider;
    let guid = hex_groups(&device.node_guid.to_be_bytes());
    let node_type = format!("{}: CA", provider.node_type);
    let own = [
        ("node_type", node_type.as_str()),
        ("node_guid", &guid),
        ("sys_image_guid", &guid),
        ("node_desc", &provider.node_desc),
        ("fw_ver", &provider.fw_ver),
        // rxe has none; Prometheus' node exporter ignores a device without it.
        ("board_id", ""),
    ];
    files(dir, own)?;
    let mut netdevs = device.ports.iter().filter_map(|port| port.netdev.as_deref());
    let is_rxe = device.ports.first().is_some_and(|port| port.link_layer == LinkLayer::Ethernet);
    if let Some(parent) = netdevs.clone().next().filter(|_| is_rxe) {
        files(dir, [("parent", parent)])?;
    }
    // rxe has no such folder; a card has, and programs look there for the interface's name.
    netdevs.try_for_each(|netdev| fs::create_dir_all(dir.join("device/net").join(netdev)))?;
    device.ports.iter().try_for_each(|port| write_port(dir, port))
}

fn write_port(device: &Path, port: &Port) -> io::Result<()> {
    let dir = device.join("ports").join(port.number.to_string());
    let state = [
        ("state", state(port)),
        ("phys_state", port.phys_state.to_string()),
        ("rate", port.rate()),
        ("lid", format!("{:#x}", port.lid)),
        ("lid_mask_count", port.lmc.to_string()),
        ("sm_lid", format!("{:#x}", port.sm_lid)),
        ("sm_sl", port.sm_sl.to_string()),
        ("cap_mask", format!("{:#010x}", port.cap_flags)),
        ("link_layer", port.link_layer.to_string()),
    ];
    files(&dir, state)?;
    write_table(&dir.join("pkeys"), port.pkeys.iter().map(|pkey| format!("{pkey:#06x}")))?;
    let none = PortCounts::default();
    for counter in COUNTERS {
        files(&dir.join(counter.folder), [(counter.name, counter.value(&none).to_string())])?;
    }
    write_gids(&dir, &port.gids)
}

/// One file for each value, by its index.
fn write_table(dir: &Path, values: impl IntoIterator<Item = String>) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mut values = values.into_iter().enumerate();
    values.try_for_each(|(index, value)| fs::write(dir.join(index.to_string()), value + "\n"))
}

/// One file for each slot of the table. An empty one has a zero GID and, as any other failure to
/// read would stop `ibv_query_gid_table`, a type; it has no interface.
fn write_gids(port: &Path, table: &GidTable) -> io::Result<()> {
    let slots = || (0..table.slots()).map(|index| table.entries().get(usize::from(index)));
    let gid = |entry: Option<&GidEntry>| hex_groups(&entry.map_or([0; 16], |entry| entry.gid));
    let kind = |entry: Option<&GidEntry>| entry.map_or(GidType::Ib, |entry| entry.gid_type).name();
    write_table(&port.join("gids"), slots().map(gid))?;
    let attributes = port.join("gid_attrs");
    write_table(&attributes.join("types"), slots().map(|entry| kind(entry).to_owned()))?;
    let netdevs = table.entries().iter().enumerate();
    let named =
        netdevs.filter_map(|(index, entry)| Some((index.to_string(), entry.netdev.as_deref()?)));
    let named: Vec<_> = named.collect();
    files(&attributes.join("ndevs"), named.iter().map(|(index, netdev)| (index.as_str(), *netdev)))
}

/// Bytes as the kernel prints GUIDs and GIDs: hexadecimal, in groups of two.
pub fn hex_groups(bytes: &[u8]) -> String {
    let group = |pair: &[u8]| pair.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(2).map(group).collect::<Vec<_>>().join(":")
}

/// A port's state as the kernel writes it.
fn state(port: &Port) -> String {
    format!("{}: {}", port.state.0, port.state.short_name().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_libraries_read() {
        let dir = std::env::temp_dir().join(format!("soft-hca-sysfs-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let device = Device::local("rxe7", 0x0273_5cff_fed2_226d, &[]);
        let netdev = device.ports[0].netdev.clone().unwrap();
        // Remains of an interrupted start do no harm.
        fs::create_dir_all(dir.join("new-rxe7/class/rest")).unwrap();
        write(&dir, "rxe7", &[device]).unwrap();
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
        assert_eq!(port("gid_attrs/ndevs/1").trim_end(), netdev);
        assert!(class.join("infiniband/rxe7/device/net").join(&netdev).is_dir());
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

    #[test]
    fn the_tree_is_read() {
        let dir = std::env::temp_dir().join(format!("soft-hca-tree-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let written = Device::local("rxe7", 0x0273_5cff_fed2_226d, &[]);
        let netdev = written.ports[0].netdev.clone();
        write(&dir, "tree", &[written]).unwrap();
        let devices = soft_hca_core::sysfs::devices(&tree(&dir, "tree"));
        fs::remove_dir_all(&dir).unwrap();
        let [device] = &devices[..] else { panic!("{devices:?}") };
        assert_eq!((device.index, device.name.as_str()), (0, "rxe7"));
        assert_eq!((device.node_guid, device.node_type), (0x0273_5cff_fed2_226d, 1));
        let [port] = &device.ports[..] else { panic!("{devices:?}") };
        assert_eq!((port.number, port.state, port.phys_state), (1, 4, 5));
        assert_eq!((port.cap_flags, device.protocol), (0x10000, "roce"));
        assert_eq!(Some(&port.netdev), netdev.as_ref());
        assert_ne!(port.netdev_index, 0);
    }
}
