//! What the device says of itself: the figures of kernel Soft-RoCE (`rxe_param.h`), as its
//! answers to QUERY_DEVICE and QUERY_PORT have them.

mod addresses;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::Path;

use crate::errno::{Errno, Result};
use crate::system;
use crate::uapi::uverbs::Answer;

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

fn device_fields(answer: &mut Answer, node_guid: u64) {
    answer
        .put(8, &node_guid.to_be_bytes())
        .put(16, &node_guid.to_be_bytes()) // sys_image_guid
        .u64(24, u64::MAX) // max_mr_size
        .u64(32, 0xffff_f000) // page_size_cap
        .u32(40, 0x00ff_ffff) // vendor_id
        .u32(52, 1_048_560) // max_qp
        .u32(56, MAX_QP_WR)
        .u32(60, DEVICE_CAP_FLAGS)
        .u32(64, MAX_SGE)
        .u32(68, MAX_SGE) // max_sge_rd
        .u32(72, 1 << 20) // max_cq
        .u32(76, MAX_CQE)
        .u32(80, 524_287) // max_mr
        .u32(84, 1 << 20) // max_pd
        .u32(88, MAX_RD_ATOMIC.into()) // max_qp_rd_atom
        .u32(96, 258_048) // max_res_rd_atom
        .u32(100, MAX_RD_ATOMIC.into()) // max_qp_init_rd_atom
        .u32(108, 1) // atomic_cap: atomic among all queue pairs of the device
        .u32(120, 524_287) // max_mw
        .u32(132, 8192) // max_mcast_grp
        .u32(136, 56) // max_mcast_qp_attach
        .u32(140, 458_752) // max_total_mcast_qp_attach
        .u32(144, 32767) // max_ah
        .u32(156, 917_503) // max_srq
        .u32(160, MAX_SRQ_WR)
        .u32(164, MAX_SRQ_SGE)
        .u16(168, 64) // max_pkeys
        .u8(170, 15) // local_ca_ack_delay
        .u8(171, 1); // phys_port_cnt
}

fn bytes<const N: usize>(answer: Answer) -> [u8; N] {
    answer.0.try_into().expect("the answer was made with this length")
}

/// `ib_uverbs_query_device_resp`
pub fn query_device(node_guid: u64) -> [u8; 176] {
    let mut answer = Answer::new(176);
    device_fields(&mut answer, node_guid);
    bytes(answer)
}

/// `ib_uverbs_ex_query_device_resp`
pub fn query_device_ex(node_guid: u64) -> [u8; 304] {
    let mut answer = Answer::new(304);
    device_fields(&mut answer, node_guid);
    answer.u32(180, 304).u64(224, DEVICE_CAP_FLAGS.into());
    bytes(answer)
}

/// `ib_uverbs_query_port_resp` of port 1
pub fn query_port(addresses: &Addresses) -> [u8; 40] {
    let mut answer = Answer::new(40);
    answer
        .u32(0, PORT_CAP_FLAGS)
        .u32(4, MAX_MESSAGE)
        .u32(16, GID_TABLE_LEN.into())
        .u16(20, PKEY_TABLE_LEN)
        .u8(26, PORT_ACTIVE)
        .u8(27, MTU_4096)
        .u8(28, addresses.active_mtu())
        .u8(30, 1) // max_vl_num
        .u8(34, 1) // active_width: 1X
        .u8(35, 8) // active_speed: FDR10
        .u8(36, LINK_UP)
        .u8(37, ETHERNET)
        .u8(38, 1); // flags: a GID is needed to reach the port
    bytes(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn device_as_rxe_reports_it() {
        let plain = query_device(0xf073_5cff_fed2_226d);
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
        let extended = query_device_ex(0xf073_5cff_fed2_226d);
        assert_eq!(extended[..176], plain);
        assert_eq!((word(&extended, 180), word(&extended, 224)), (304, 0x0122_3c76));
    }

    #[test]
    fn port_as_rxe_reports_it() {
        let port = query_port(&Addresses::of_interfaces(&[], 2 << 56));
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
