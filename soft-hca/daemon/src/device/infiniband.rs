//! InfiniBand devices: ports with LIDs, all in one subnet that has a subnet manager.

use std::net::IpAddr;

use soft_hca_core::device_spec::MAX_PKEYS;
use soft_hca_core::uapi::verbs::PortState;

use super::{Device, GidTable, LinkLayer, PhysState, Port, Speed, Width};

/// Slots of a port's GID table.
const GID_TABLE_LEN: u16 = 8;
/// The subnet prefix that a subnet manager sets if nobody says otherwise.
const SUBNET_PREFIX: u64 = 0xfe80 << 48;
/// `enum ib_port_capability_mask_bits`: traps, automatic migration, mapping of service levels, a
/// system image GUID, connection management, a vendor's class, notices of capabilities, client
/// reregistration.
const PORT_CAPABILITIES: u32 = 0x0251_0868;
/// Bytes that one message may have.
const MAX_MESSAGE: u32 = 1 << 30;

/// Attributes that a subnet manager gives a device's ports.
#[derive(Clone, Debug)]
pub(super) struct Subnet {
    /// The first port's LID, a multiple of two to the power of `lmc`. The others' follow.
    pub first_lid: u16,
    /// LMC: LID mask control.
    pub lmc: u8,
    /// The subnet manager's own LID.
    pub sm_lid: u16,
    /// Their P_Keys, at most [`MAX_PKEYS`].
    pub pkeys: Vec<u16>,
}

impl Device {
    /// An InfiniBand device. The addresses of each port are those of an interface of IPoIB, so to
    /// speak: programs name the port by them.
    pub(super) fn infiniband(
        name: &str,
        node_guid: u64,
        addresses: impl Iterator<Item = Vec<IpAddr>>,
        subnet: &Subnet,
    ) -> Self {
        let port = |(number, addresses): (u8, Vec<IpAddr>)| {
            Port::infiniband(number, node_guid + u64::from(number), addresses, subnet)
        };
        let ports = (1..).zip(addresses).map(port).collect();
        let mut device = Self::of_ports(name, node_guid, ports);
        device.limits.max_pkeys = MAX_PKEYS as u16;
        device
    }
}

impl Port {
    fn infiniband(number: u8, guid: u64, addresses: Vec<IpAddr>, subnet: &Subnet) -> Self {
        let mut pkeys = subnet.pkeys.clone();
        pkeys.resize(MAX_PKEYS, 0);
        let gid = (u128::from(SUBNET_PREFIX) << 64 | u128::from(guid)).to_be_bytes();
        Self {
            number,
            link_layer: LinkLayer::InfiniBand,
            state: PortState::ACTIVE,
            phys_state: PhysState::LinkUp,
            cap_flags: PORT_CAPABILITIES,
            max_message: MAX_MESSAGE,
            max_mtu: 5,
            own_mtu: 5,
            followed: Vec::new(),
            max_vl_num: 4,
            width: Width::X4,
            speed: Speed::Edr,
            lid: subnet.first_lid + (u16::from(number - 1) << subnet.lmc),
            lmc: subnet.lmc,
            sm_lid: subnet.sm_lid,
            sm_sl: 0,
            pkeys,
            gids: GidTable::infiniband(GID_TABLE_LEN, gid, addresses),
            netdev: None,
        }
    }

    /// Whether a LID leads to the port: its own, and those that differ in the low bits which stand
    /// for paths (LMC).
    pub(crate) fn has_lid(&self, lid: u16) -> bool {
        self.lid != 0 && lid >> self.lmc == self.lid >> self.lmc
    }

    /// The bits of a LID of the port that stand for a path.
    pub(crate) fn path_bits(&self, lid: u16) -> u8 {
        (lid & ((1 << self.lmc) - 1)) as u8
    }

    /// The LID of a path that begins at the port, by `src_path_bits` of its address vector; 0 on
    /// Ethernet. Adapters do not look at bits beyond the LMC.
    pub(crate) fn source_lid(&self, src_path_bits: u8) -> u16 {
        self.lid | u16::from(self.path_bits(src_path_bits.into()))
    }

    /// The P_Key at an index of the port's table, unless the place is empty.
    pub(crate) fn pkey(&self, index: u16) -> Option<u16> {
        self.pkeys.get(usize::from(index)).copied().filter(|pkey| *pkey != 0)
    }
}
