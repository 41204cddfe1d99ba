//! InfiniBand devices: ports with LIDs, all in one subnet that has a subnet manager.

use std::net::IpAddr;

use super::{Device, GidTable, LinkLayer, PhysState, Port, PortState, Speed, Width};

/// Slots of a port's GID table.
const GID_TABLE_LEN: u16 = 8;
/// The subnet prefix that a subnet manager sets if nobody says otherwise.
const SUBNET_PREFIX: u64 = 0xfe80 << 48;
/// The subnet manager is at the fabric's first port.
const SM_LID: u16 = 1;
/// `enum ib_port_capability_mask_bits`: traps, automatic migration, mapping of service levels, a
/// system image GUID, connection management, a vendor's class, notices of capabilities, client
/// reregistration.
const PORT_CAPABILITIES: u32 = 0x0251_0868;
/// Bytes that one message may have.
const MAX_MESSAGE: u32 = 1 << 30;

impl Device {
    /// An InfiniBand device whose ports have the LIDs from `first_lid` on. The addresses of each
    /// are those of an interface of IPoIB, so to speak: programs name the port by them.
    pub(super) fn infiniband(
        name: &str,
        node_guid: u64,
        addresses: impl Iterator<Item = Vec<IpAddr>>,
        first_lid: u16,
    ) -> Self {
        let port = |(number, addresses): (u8, Vec<IpAddr>)| {
            let lid = first_lid + u16::from(number) - 1;
            Port::infiniband(number, node_guid + u64::from(number), lid, addresses)
        };
        Self::of_ports(name, node_guid, (1..).zip(addresses).map(port).collect())
    }
}

impl Port {
    fn infiniband(number: u8, guid: u64, lid: u16, addresses: Vec<IpAddr>) -> Self {
        let gid = (u128::from(SUBNET_PREFIX) << 64 | u128::from(guid)).to_be_bytes();
        Self {
            number,
            link_layer: LinkLayer::InfiniBand,
            state: PortState::Active,
            phys_state: PhysState::LinkUp,
            cap_flags: PORT_CAPABILITIES,
            max_message: MAX_MESSAGE,
            max_mtu: 5,
            own_mtu: 5,
            followed: Vec::new(),
            max_vl_num: 4,
            width: Width::X4,
            speed: Speed::Edr,
            lid,
            lmc: 0,
            sm_lid: SM_LID,
            sm_sl: 0,
            pkeys: vec![0xffff],
            gids: GidTable::infiniband(GID_TABLE_LEN, gid, addresses),
            netdev: None,
        }
    }

    /// Whether a LID leads to the port: its own, and those that differ in the low bits which stand
    /// for paths (LMC).
    pub(crate) fn has_lid(&self, lid: u16) -> bool {
        self.lid != 0 && lid >> self.lmc == self.lid >> self.lmc
    }
}
