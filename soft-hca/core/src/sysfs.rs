//! Reads the devices in a tree of `SYSFS_PATH`, which the daemon has written.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use crate::system;
use crate::uapi::nldev::{Device, PortAttributes, Subnet};

/// The devices of a tree, in the order of their indices.
pub fn devices(tree: &Path) -> Vec<Device> {
    let class = tree.join("class");
    let device = |index| {
        let name = read(&class.join(format!("infiniband_verbs/uverbs{index}")), "ibdev")?;
        read_device(&class.join("infiniband").join(&name), index, name)
    };
    let entries = fs::read_dir(class.join("infiniband_verbs")).into_iter().flatten().flatten();
    let index = |name: &OsStr| name.to_str()?.strip_prefix("uverbs")?.parse().ok();
    // Those that are removed, and those that the program does not find, are missing in between.
    let mut indices: Vec<u32> = entries.filter_map(|entry| index(&entry.file_name())).collect();
    indices.sort_unstable();
    indices.into_iter().filter_map(device).collect()
}

fn read(folder: &Path, file: &str) -> Option<String> {
    let text = fs::read_to_string(folder.join(file)).ok()?;
    Some(text.trim_end().to_owned())
}

/// The number of "4: ACTIVE".
fn state(folder: &Path, file: &str) -> Option<u8> {
    read(folder, file)?.split(':').next()?.parse().ok()
}

fn read_device(dir: &Path, index: u32, name: String) -> Option<Device> {
    let port = |number| dir.join(format!("ports/{number}"));
    Some(Device {
        index,
        name,
        node_guid: u64::from_str_radix(&read(dir, "node_guid")?.replace(':', ""), 16).ok()?,
        node_type: state(dir, "node_type")?,
        protocol: if read(&port(1), "link_layer")? == "Ethernet" { "roce" } else { "ib" },
        ports: (1..).map_while(|number| read_port(&port(number), number)).collect(),
    })
}

/// The number of "0x00c1".
fn hex(folder: &Path, file: &str) -> Option<u64> {
    u64::from_str_radix(read(folder, file)?.strip_prefix("0x")?, 16).ok()
}

/// Of an InfiniBand port; its first GID begins with the subnet's prefix.
fn read_subnet(dir: &Path) -> Option<Subnet> {
    let groups = read(dir, "gids/0")?.replace(':', "");
    Some(Subnet {
        prefix: u64::from_str_radix(groups.get(..16)?, 16).ok()?,
        lid: hex(dir, "lid")? as u32,
        sm_lid: hex(dir, "sm_lid")? as u32,
        lmc: read(dir, "lid_mask_count")?.parse().ok()?,
    })
}

fn read_port(dir: &Path, number: u32) -> Option<PortAttributes> {
    // A RoCE port's first address of IPv4 is at index 1.
    let netdev = ["gid_attrs/ndevs/1", "gid_attrs/ndevs/0"].iter().find_map(|file| read(dir, file));
    let netdev = netdev.unwrap_or_default();
    Some(PortAttributes {
        number,
        cap_flags: hex(dir, "cap_mask")?,
        subnet: if read(dir, "link_layer")? == "Ethernet" { None } else { read_subnet(dir) },
        state: state(dir, "state")?,
        phys_state: state(dir, "phys_state")?,
        netdev_index: system::interface_number(&netdev).unwrap_or(0),
        netdev,
    })
}
