//! What the device says of itself: the figures of kernel Soft-RoCE (`rxe_param.h`), as its
//! answers to QUERY_DEVICE and QUERY_PORT have them.

mod addresses;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::Path;

use crate::errno::{Errno, Result};
use crate::system;
use crate::uapi::uverbs::answer;

pub use addresses::{Addresses, GidEntry};

/// Slots of the GID table. rxe has 1024; every one is a file or a command to each program that
/// lists them.
pub const GID_TABLE_LEN: u16 = 16;
/// Most completions that a queue may hold.
pub const MAX_CQE: u32 = 32767;
/// Most work requests of a send or receive queue.
pub const MAX_QP_WR: u32 = 1 << 20;
/// Most scatter/gather entries of a request.
pub const MAX_SGE: u32 = 32;
/// Most bytes that a request may carry inline.
pub const MAX_INLINE: u32 = 512;
/// Most requests of a shared receive queue.
pub const MAX_SRQ_WR: u32 = 1 << 20;
/// Most scatter/gather entries of a shared receive queue's request.
pub const MAX_SRQ_SGE: u32 = 27;
/// Most outstanding reads and atomics of a queue pair, in either direction.
pub const MAX_RD_ATOMIC: u8 = 128;
/// Bytes that one message may have.
pub const MAX_MESSAGE: u32 = 0x80_0000;
/// Entries of the P_Key table.
pub const PKEY_TABLE_LEN: u16 = 1;

const DEVICE_CAP_FLAGS: u32 = 0x0122_3c76;
const PORT_CAP_FLAGS: u32 = 0x0001_0000;
/// `ib_port_state`: active.
const PORT_ACTIVE: u8 = 4;
/// `ib_mtu`: 4096 bytes.
const MTU_4096: u8 = 5;
/// Physical state of a port: link up.
const LINK_UP: u8 = 5;
/// Link layer of a port: Ethernet.
const ETHERNET: u8 = 2;

/// Completion vectors: as many as there are processors.
pub fn num_comp_vectors() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// The node's GUID, stable for a fabric's name, a user and a machine. In answers and on the wire
/// its bytes are in network order (`to_be_bytes`), in sysfs its digits are written as they are.
pub fn node_guid(dir: &Path) -> u64 {
    let fabric = dir.file_name().unwrap_or_default();
    guid_of(&[fabric.as_encoded_bytes(), &system::user().to_le_bytes()])
}

/// A GUID of this machine that depends on `parts`: never 0, marked as made locally.
fn guid_of(parts: &[&[u8]]) -> u64 {
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

/// The source address from which this machine reaches `to`, as the system's routing says.
/// Loopback and multicast need no route here, so they work where no interface is up.
pub fn route(to: IpAddr) -> Result<IpAddr> {
    if to.is_loopback() {
        return Ok(to);
    }
    let (any, loopback): (IpAddr, IpAddr) = match to {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::LOCALHOST.into()),
    };
    // Connecting a datagram socket looks up the route and sends nothing.
    let asked = UdpSocket::bind((any, 0))
        .and_then(|socket| socket.connect((to, 1)).and_then(|()| socket.local_addr()));
    match asked {
        Ok(from) => Ok(from.ip()),
        Err(_) if to.is_multicast() => Ok(loopback),
        Err(error) => Err(Errno(error.raw_os_error().unwrap_or(libc::ENETUNREACH))),
    }
}

/// QUERY_DEVICE's answer.
pub fn query_device(node_guid: u64) -> answer::QueryDevice {
    answer::QueryDevice {
        node_guid: node_guid.to_be_bytes(),
        sys_image_guid: node_guid.to_be_bytes(),
        max_mr_size: u64::MAX,
        page_size_cap: 0xffff_f000,
        vendor_id: 0x00ff_ffff,
        max_qp: 1_048_560,
        max_qp_wr: MAX_QP_WR,
        device_cap_flags: DEVICE_CAP_FLAGS,
        max_sge: MAX_SGE,
        max_sge_rd: MAX_SGE,
        max_cq: 1 << 20,
        max_cqe: MAX_CQE,
        max_mr: 524_287,
        max_pd: 1 << 20,
        max_qp_rd_atom: MAX_RD_ATOMIC.into(),
        max_res_rd_atom: 258_048,
        max_qp_init_rd_atom: MAX_RD_ATOMIC.into(),
        // Atomic among all queue pairs of the device.
        atomic_cap: 1,
        max_mw: 524_287,
        max_mcast_grp: 8192,
        max_mcast_qp_attach: 56,
        max_total_mcast_qp_attach: 458_752,
        max_ah: 32767,
        max_srq: 917_503,
        max_srq_wr: MAX_SRQ_WR,
        max_srq_sge: MAX_SRQ_SGE,
        max_pkeys: 64,
        local_ca_ack_delay: 15,
        phys_port_cnt: 1,
        ..Default::default()
    }
}

/// The extended QUERY_DEVICE's answer.
pub fn query_device_ex(node_guid: u64) -> answer::ExQueryDevice {
    answer::ExQueryDevice {
        base: query_device(node_guid),
        response_length: size_of::<answer::ExQueryDevice>() as u32,
        device_cap_flags_ex: DEVICE_CAP_FLAGS.into(),
        ..Default::default()
    }
}

/// QUERY_PORT's answer for port 1.
pub fn query_port(addresses: &Addresses) -> answer::QueryPort {
    answer::QueryPort {
        port_cap_flags: PORT_CAP_FLAGS,
        max_msg_sz: MAX_MESSAGE,
        gid_tbl_len: GID_TABLE_LEN.into(),
        pkey_tbl_len: PKEY_TABLE_LEN,
        state: PORT_ACTIVE,
        max_mtu: MTU_4096,
        active_mtu: addresses.active_mtu(),
        max_vl_num: 1,
        // 1X, FDR10
        active_width: 1,
        active_speed: 8,
        phys_state: LINK_UP,
        link_layer: ETHERNET,
        // A GID is needed to reach the port.
        flags: 1,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uapi::uverbs::answer::Answer as _;

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn device_as_rxe_reports_it() {
        let plain = query_device(0xf073_5cff_fed2_226d).to_bytes();
        assert_eq!(plain[8..12], [0xf0, 0x73, 0x5c, 0xff]);
        assert_eq!(plain[8..16], plain[16..24]);
        // max_qp to max_pd, then the atomics
        let words: Vec<u32> = (52..88).step_by(4).map(|at| word(&plain, at)).collect();
        let expected =
            [1_048_560, 1_048_576, 0x0122_3c76, 32, 32, 1_048_576, 32767, 524_287, 1_048_576];
        assert_eq!(words, expected);
        assert_eq!((word(&plain, 88), word(&plain, 96), word(&plain, 108)), (128, 258_048, 1));
        assert_eq!(
            (word(&plain, 156), word(&plain, 160), word(&plain, 164)),
            (917_503, 1 << 20, 27)
        );
        assert_eq!(plain[168..172], [64, 0, 15, 1]);
        let extended = query_device_ex(0xf073_5cff_fed2_226d).to_bytes();
        assert_eq!(extended[..176], plain);
        assert_eq!((word(&extended, 180), word(&extended, 224)), (304, 0x0122_3c76));
    }

    #[test]
    fn port_as_rxe_reports_it() {
        let port = query_port(&Addresses::of_interfaces(&[], 2 << 56)).to_bytes();
        assert_eq!((word(&port, 0), word(&port, 4), word(&port, 16)), (0x10000, 0x80_0000, 16));
        assert_eq!(port[20..28], [1, 0, 0, 0, 0, 0, 4, 5]);
        assert_eq!(port[30..40], [1, 0, 0, 0, 1, 8, 5, 2, 1, 0]);
    }

    #[test]
    fn guids_tell_fabrics_apart_and_stay() {
        let guid = node_guid(Path::new("/run/a/soft-hca/one"));
        assert_eq!(guid, node_guid(Path::new("/run/soft-hca/one")));
        assert_ne!(guid, node_guid(Path::new("/run/soft-hca/two")));
        assert_eq!(guid >> 56 & 3, 2);
    }

    #[test]
    fn routes() {
        assert_eq!(route(Ipv4Addr::LOCALHOST.into()), Ok(Ipv4Addr::LOCALHOST.into()));
        assert!(route(Ipv4Addr::new(239, 1, 1, 1).into()).is_ok());
    }
}
