//! Kernel Soft-RoCE's device, with the figures of `rxe_param.h`.

use std::net::IpAddr;

use soft_hca_core::arena;
use soft_hca_core::uapi::rxe;
use soft_hca_core::uapi::verbs::{PortState, capability};

use soft_hca_roce::wire::bth::DEFAULT_PKEY;
use soft_hca_verbs::VendorErrors;

use super::guid::guid_of;
use super::interfaces::{interfaces, mtu_of};
use super::mtu::path_mtu;
use super::{
    Device, GidTable, Interface, Limits, LinkLayer, PhysState, Port, Provider, Speed, Width,
};

/// Slots of the GID table. rxe has 1024; every one is a file or a command to each program that
/// lists them.
const GID_TABLE_LEN: u16 = 16;
/// Bytes of a message, at most, as in rxe (`RXE_PORT_MAX_MSG_SZ`; before Linux 6.14 rxe took as
/// many, too, but announced 8 MiB).
const MAX_MESSAGE: u32 = 1 << 31;
/// MTU of an interface that tells none.
const USUAL_MTU: u32 = 1500;

impl Device {
    /// A Soft-RoCE device with the addresses of its link to other hosts, or all that this machine has
    /// now if there are none.
    pub fn local(name: &str, node_guid: u64, link: &[IpAddr]) -> Self {
        let port = Port::rxe(1, &interfaces(), link, guid_of(&[b"link-local"]));
        Self::of_ports(name, node_guid, vec![port])
    }

    /// A Soft-RoCE device with addresses of its own, on the network interface that a device usually
    /// has.
    pub(super) fn with_addresses(
        name: &str,
        node_guid: u64,
        addresses: Vec<IpAddr>,
        interfaces: &[Interface],
    ) -> Self {
        let usual = usual_netdev(interfaces);
        let [.., a, b, c] = node_guid.to_be_bytes();
        let interface = Interface {
            // Administered locally, and another one for each device.
            mac: Some([2, 0, 0, a, b, c]),
            mtu: usual.as_deref().map_or(USUAL_MTU, mtu_of),
            name: usual.unwrap_or_default(),
            is_running: true,
            addresses,
            ..Interface::default()
        };
        Self::of_ports(name, node_guid, vec![Port::rxe(1, &[interface], &[], node_guid)])
    }

    /// A Soft-RoCE device whose one port has the addresses of these interfaces; `made_up` is the
    /// identifier in its link-local GID if none of them has a MAC.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn rxe(name: &str, node_guid: u64, interfaces: &[Interface], made_up: u64) -> Self {
        Self::of_ports(name, node_guid, vec![Port::rxe(1, interfaces, &[], made_up)])
    }

    /// A device of rxe's provider and limits with these ports.
    pub(super) fn of_ports(name: &str, node_guid: u64, ports: Vec<Port>) -> Self {
        Self {
            name: name.to_owned(),
            node_guid,
            provider: Provider::rxe(),
            limits: Limits::rxe(),
            index: 0,
            numa_node: None,
            pci: None,
            like: None,
            vendor_errors: VendorErrors::default(),
            timeout_floor: 0,
            ports,
        }
    }
}

impl Provider {
    /// The provider `rxe`.
    pub(crate) fn rxe() -> Self {
        Self {
            abi_version: 2,
            vendor_id: 0x00ff_ffff,
            node_type: 1,
            node_desc: "rxe".to_owned(),
            fw_ver: String::new(),
            send_wqe_bytes: rxe::SEND_WQE_BYTES as u32,
            recv_wqe_bytes: rxe::RECV_WQE_BYTES as u32,
            sge_bytes: rxe::SGE_BYTES as u32,
            cqe_bytes: rxe::CQE_SLOT as u32,
        }
    }
}

impl Limits {
    /// Those of Soft-RoCE, but no more objects than the arena's tables have room for, and as many
    /// completion vectors as there are processors.
    pub(crate) fn rxe() -> Self {
        Self {
            device_cap_flags: 0x0122_3c76,
            device_cap_flags_ex: capability::FLUSH_GLOBAL | capability::ATOMIC_WRITE,
            max_mr_size: u64::MAX,
            page_size_cap: 0xffff_f000,
            max_qp: arena::MAX_QPS as u32,
            max_send_wr: 1 << 20,
            max_recv_wr: 1 << 20,
            max_send_sge: 32,
            max_recv_sge: 32,
            max_sge_rd: 32,
            max_inline_data: 512,
            max_cq: arena::MAX_CQS as u32,
            max_cqe: 32767,
            max_mr: arena::MAX_REGIONS as u32,
            max_pd: 1 << 20,
            max_qp_rd_atom: 128,
            max_res_rd_atom: 258_048,
            max_qp_init_rd_atom: 128,
            // Atomic among all queue pairs of the device
            atomic_cap: 1,
            max_mw: arena::MAX_WINDOWS as u32,
            max_mcast_grp: arena::MAX_MEMBERS as u32,
            max_mcast_qp_attach: 56,
            max_total_mcast_qp_attach: arena::MAX_MEMBERS as u32,
            max_ah: arena::MAX_AHS as u32,
            max_srq: arena::MAX_SRQS as u32,
            max_srq_wr: 1 << 20,
            max_srq_sge: 27,
            max_pkeys: 64,
            local_ca_ack_delay: 15,
            num_comp_vectors: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            has_rc: true,
            has_uc: true,
            has_ud: true,
            has_srq: true,
        }
    }
}

impl Port {
    /// A port of Soft-RoCE with the addresses of these interfaces, or those of a link; see
    /// [`GidTable::roce`].
    pub(crate) fn rxe(number: u8, interfaces: &[Interface], link: &[IpAddr], made_up: u64) -> Self {
        let gids = GidTable::roce(GID_TABLE_LEN, interfaces, link, made_up);
        let netdev = gids.netdev().map(str::to_owned);
        let usual = interfaces.iter().find(|i| Some(&i.name) == netdev.as_ref());
        let mtu = usual.map_or(USUAL_MTU, |i| i.mtu);
        Self {
            number,
            link_layer: LinkLayer::Ethernet,
            state: PortState::ACTIVE,
            phys_state: PhysState::LinkUp,
            cap_flags: 0x0001_0000,
            max_message: MAX_MESSAGE,
            max_mtu: 5,
            own_mtu: path_mtu(mtu),
            followed: Vec::new(),
            max_vl_num: 1,
            width: Width::X1,
            speed: Speed::Fdr10,
            lid: 0,
            lmc: 0,
            sm_lid: 0,
            sm_sl: 0,
            pkeys: vec![DEFAULT_PKEY],
            gids,
            netdev,
        }
    }
}

/// The network interface that a device is on if nobody says otherwise.
pub(super) fn usual_netdev(interfaces: &[Interface]) -> Option<String> {
    GidTable::roce(GID_TABLE_LEN, interfaces, &[], 0).netdev().map(str::to_owned)
}
