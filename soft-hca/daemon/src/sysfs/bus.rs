//! The function of the PCI bus that a device says it is, as programs look for it that want to know
//! which processors and other cards are near: hwloc, NCCL, Mooncake.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use soft_hca_core::device_spec::PciAddress;

use super::attributes::files;
use crate::device::{Device, LinkLayer};

/// Where devices are that have no bus.
const VIRTUAL: &str = "devices/virtual";

/// Where a device's folders are, below `/sys`, each in that of its class.
pub(super) fn place(device: &Device) -> PathBuf {
    device.pci.map_or_else(|| VIRTUAL.into(), function)
}

/// Where a function is.
fn function(address: PciAddress) -> PathBuf {
    Path::new("devices").join(address.root_bus()).join(address.to_string())
}

/// The way from a folder back to the root of its tree.
pub(super) fn way_back(folder: &Path) -> PathBuf {
    folder.components().map(|_| "..").collect()
}

/// Writes what a device has of its bus, to which `device` in its folders leads. Without a bus that
/// is a folder, of its own class only, for its node and its network interface.
pub(super) fn write(root: &Path, [folder, uverbs]: [&Path; 2], device: &Device) -> io::Result<()> {
    let Some(address) = device.pci else {
        return match device.numa_node {
            Some(node) => files(&folder.join("device"), processors(node)),
            None => Ok(()),
        };
    };
    for folder in [folder, uverbs] {
        symlink(Path::new("../../..").join(address.to_string()), folder.join("device"))?;
    }
    let place = root.join(function(address));
    // As `PCI_CLASS_NETWORK_ETHERNET` and InfiniBand's of pci_ids.h, with no interface of their
    // own.
    let is_ethernet =
        device.ports.first().is_some_and(|port| port.link_layer == LinkLayer::Ethernet);
    let class = if is_ethernet { "20000" } else { "20700" };
    let uevent = format!("PCI_CLASS={class}\nPCI_SLOT_NAME={address}");
    files(&place, [("class", format!("0x{class:0>6}")), ("uevent", uevent)])?;
    match device.numa_node {
        Some(node) => files(&place, processors(node))?,
        None => files(&place, [("numa_node", "-1")])?,
    }
    let subsystem = way_back(&function(address)).join("bus/pci");
    symlink(subsystem, place.join("subsystem"))?;
    let bus = root.join("bus/pci/devices");
    fs::create_dir_all(&bus)?;
    symlink(Path::new("../../..").join(function(address)), bus.join(address.to_string()))
}

/// The files that say which node it is, and its processors, if the machine has the node.
fn processors(node: u32) -> Vec<(&'static str, String)> {
    let of_node = |file: &str| {
        let text =
            fs::read_to_string(format!("/sys/devices/system/node/node{node}/{file}")).ok()?;
        Some(text.trim_end().to_owned())
    };
    let cpus = [("local_cpus", of_node("cpumap")), ("local_cpulist", of_node("cpulist"))];
    let known = cpus.into_iter().filter_map(|(name, text)| Some((name, text?)));
    [("numa_node", node.to_string())].into_iter().chain(known).collect()
}
