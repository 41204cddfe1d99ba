//! Attributes of a device. Everything that programs ask of it (uverbs, sysfs, netlink) and
//! every limit that commands are checked against are values of a [`Device`] and its [`Port`]s.
//!
//! | file | what |
//! | --- | --- |
//! | `wanted` | which devices a fabric has |
//! | `rxe`, `infiniband` | the kinds that there are: kernel Soft-RoCE's, and with ports that have LIDs |
//! | [`like`] | what is known of adapters that people have, for `--like` |
//! | `limits`, `provider`, `port`, `gid_table` | the parts of a device |
//! | `mtu` | path MTUs of network interfaces |
//! | `interfaces`, `route` | the machine's network, from which GIDs come |
//! | `neighbour` | who is on it |
//! | `guid` | numbers that stay the same on a machine |
//! | `answer` | QUERY_DEVICE and QUERY_PORT |

mod answer;
mod gid_table;
mod guid;
mod infiniband;
mod interfaces;
pub mod like;
mod limits;
mod mtu;
mod neighbour;
mod port;
mod provider;
mod route;
mod rxe;
mod source;
#[cfg(test)]
mod tests;
mod wanted;

use soft_hca_core::device_spec::PciAddress;
use soft_hca_core::errno::Refusal;
pub use soft_hca_core::errno::{Errno, Result};
use soft_hca_verbs::VendorErrors;

pub use gid_table::{GidEntry, GidTable, GidType, is_link_local};
pub use guid::node_guid;
pub use interfaces::Interface;
pub(crate) use interfaces::interfaces;
pub(crate) use limits::Limits;
pub(crate) use neighbour::{Neighbour, neighbour};
pub(crate) use port::{LinkLayer, PhysState, Port, Speed, Width};
pub(crate) use provider::Provider;
pub(crate) use route::route;
pub(crate) use source::{Source, find_source};
pub use wanted::devices;

/// An RDMA device (`struct ib_device`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// As in `/sys/class/infiniband`.
    pub name: String,
    /// The node's GUID. In answers and on the wire its bytes are in network order
    /// (`to_be_bytes`), in sysfs its digits are written as they are.
    pub node_guid: u64,
    /// Attributes that only the driver's own library in user space knows otherwise.
    pub provider: Provider,
    /// Limits that commands are checked against.
    pub limits: Limits,
    /// Its place among the fabric's.
    pub index: usize,
    /// The node of the machine that it says it is near.
    pub numa_node: Option<u32>,
    /// Where it says it is on the PCI bus.
    pub pci: Option<PciAddress>,
    /// The adapter whose limits it has.
    pub like: Option<&'static str>,
    /// The numbers of that adapter for failures.
    pub vendor_errors: VendorErrors,
    /// How it retransmits, [`AckTimer::floor`](soft_hca_roce::transport::timers::AckTimer::floor).
    pub timeout_floor: u8,
    /// Their numbers are 1 and those that follow.
    pub ports: Vec<Port>,
}

impl Device {
    /// The port with a number; `EINVAL` if there is none.
    pub fn port(&self, number: u8) -> Result<&Port> {
        let port = self.ports.iter().find(|port| port.number == number);
        port.ok_or(
            Errno::EINVAL
                .because(Refusal::NoSuchPort)
                .beyond(number.into(), self.ports.len() as u64),
        )
    }
}
