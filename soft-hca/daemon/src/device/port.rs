//! Ports: `struct ib_port_attr` and `struct ib_port_immutable`.

use std::fmt;

use soft_hca_core::uapi::verbs::{PortState, event};

use super::GidTable;
use super::mtu::active_mtu_of;

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// From 1.
    pub number: u8,
    /// The kind of its network.
    pub link_layer: LinkLayer,
    /// Whether it is in use.
    pub state: PortState,
    /// Whether the link is up.
    pub phys_state: PhysState,
    /// `port_cap_flags`
    pub cap_flags: u32,
    /// Bytes that one message may have.
    pub max_message: u32,
    /// `ib_mtu`: 1 for 256 bytes to 5 for 4096.
    pub max_mtu: u8,
    /// The MTU of the path to everybody (`ib_mtu`), unless it follows others; see
    /// [`Port::active_mtu`].
    pub own_mtu: u8,
    /// Network interfaces whose MTU the port's follows: those of the link to other hosts.
    pub followed: Vec<String>,
    /// Virtual lanes (`max_vl_num`).
    pub max_vl_num: u8,
    /// Lanes of the link.
    pub width: Width,
    /// Rate of a lane.
    pub speed: Speed,
    /// Local identifier; 0 on Ethernet.
    pub lid: u16,
    /// LMC: LID mask control.
    pub lmc: u8,
    /// The subnet manager's LID.
    pub sm_lid: u16,
    /// The service level to reach the subnet manager.
    pub sm_sl: u8,
    /// The P_Key table; 0 is an empty place.
    pub pkeys: Vec<u16>,
    /// The GID table.
    pub gids: GidTable,
    /// The network interface of the port, if it has one.
    pub netdev: Option<String>,
}

/// The kind of a port's network (`rdma_link_layer`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LinkLayer {
    /// Nodes are known by LIDs.
    InfiniBand = 1,
    /// RoCE: nodes are known by GIDs, which are addresses of IP.
    Ethernet = 2,
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InfiniBand => "InfiniBand",
            Self::Ethernet => "Ethernet",
        })
    }
}

/// `ib_port_phys_state`, those that software has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(dead_code, reason = "the values of the specification, not all of which a port here has")]
pub enum PhysState {
    /// Nobody is at the other end.
    Polling = 2,
    /// Switched off.
    Disabled = 3,
    /// A link.
    LinkUp = 5,
}

impl PhysState {
    /// As the kernel's tools call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Polling => "Polling",
            Self::Disabled => "Disabled",
            Self::LinkUp => "LinkUp",
        }
    }
}

impl fmt::Display for PhysState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", *self as u8, self.name())
    }
}

/// `ib_port_width`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(dead_code, reason = "the values of the specification, not all of which a port here has")]
pub enum Width {
    /// One lane.
    X1 = 1,
    /// Four lanes.
    X4 = 2,
}

impl Width {
    fn lanes(self) -> u32 {
        match self {
            Self::X1 => 1,
            Self::X4 => 4,
        }
    }
}

/// `ib_port_speed`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(dead_code, reason = "the values of the specification, not all of which a port here has")]
pub enum Speed {
    /// 10 Gb/s.
    Fdr10 = 8,
    /// 25 Gb/s.
    Edr = 32,
}

impl Speed {
    fn name_and_gbits(self) -> (&'static str, u32) {
        match self {
            Self::Fdr10 => ("FDR10", 10),
            Self::Edr => ("EDR", 25),
        }
    }
}

impl Port {
    /// Whether something gets through.
    pub(crate) fn is_up(&self) -> bool {
        self.state == PortState::ACTIVE
    }

    /// The MTU of the path to everybody (`ib_mtu`): that of the followed interface with the smallest
    /// one now, as rxe follows its interface (`rxe_set_mtu`).
    pub(crate) fn active_mtu(&self) -> u8 {
        let followed = self.followed.iter().map(|name| active_mtu_of(name));
        followed.min().unwrap_or(self.own_mtu)
    }

    /// As sysfs has it (`rate_show`).
    pub(crate) fn rate(&self) -> String {
        let (speed, gbits) = self.speed.name_and_gbits();
        let lanes = self.width.lanes();
        format!("{} Gb/sec ({lanes}X {speed})", gbits * lanes)
    }

    /// The asynchronous events of the port when it goes down or has come up, in this order. On
    /// InfiniBand a subnet manager that finds the port anew first asks those who have registered
    /// something with it to do so again (IBTA 14.4.11; `lid_mgr_set_physp_pi` of OpenSM).
    pub(crate) fn events(&self, is_up: bool) -> &'static [u32] {
        match (is_up, self.link_layer) {
            (false, _) => &[event::PORT_ERR],
            (true, LinkLayer::Ethernet) => &[event::PORT_ACTIVE],
            (true, LinkLayer::InfiniBand) => &[event::CLIENT_REREGISTER, event::PORT_ACTIVE],
        }
    }

    /// Whether a GID has to be given to reach the port, since LIDs lead nowhere.
    pub(crate) fn is_grh_required(&self) -> bool {
        self.link_layer == LinkLayer::Ethernet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_registered_is_asked_again_on_infiniband() {
        let roce = Port::rxe(1, &[], &[], 1);
        let infiniband = Port { link_layer: LinkLayer::InfiniBand, ..roce.clone() };
        for (port, up) in [(&roce, &[9][..]), (&infiniband, &[17, 9][..])] {
            assert_eq!((port.events(false), port.events(true)), (&[10][..], up));
        }
    }
}
