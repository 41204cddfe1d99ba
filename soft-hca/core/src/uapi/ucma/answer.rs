//! Answers to queries.
//!
//! QUERY and QUERY_ROUTE leave out the index of the device at the end: the library has put there
//! what means "unknown" and would take a zero for a number.

use std::mem::offset_of;

use soft_hca_roce::wire::bth::DEFAULT_PKEY;
use zerocopy::IntoBytes;

use super::abi::{
    self, PathRecData, QueryAddrResp, QueryPathResp, QueryRouteResp, SockaddrIn6, UserPathRec,
};
use super::address::Sockaddr;
use super::event::AhAttr;
use crate::uapi::uverbs::answer::{self, Answer as _};
use crate::uapi::verbs::QpAttrMask;

/// Bytes of QUERY's answer for addresses and GIDs, without the device's index.
pub const QUERY_ADDR_MIN: usize = offset_of!(QueryAddrResp, ibdev_index);
/// Bytes of QUERY's answer for paths before the first.
pub const QUERY_PATH_MIN: usize = size_of::<QueryPathResp>();
/// Bytes of QUERY_ROUTE's answer, without the device's index.
pub const QUERY_ROUTE_MIN: usize = offset_of!(QueryRouteResp, ibdev_index);
/// Bytes of INIT_QP_ATTR's answer.
pub const QP_ATTR: usize = size_of::<answer::QpAttr>();

/// This path is the primary one, for management and both directions.
const PATH_FLAGS: u32 = 0x2b;
/// A selector of a path record in the answer to QUERY: exactly this value.
const EXACTLY: u8 = 0x80;
/// The same in the answer to QUERY_ROUTE, where a selector has a byte of its own.
const SELECTOR_EXACTLY: u8 = 2;
/// A path that can be taken both ways.
const REVERSIBLE: u8 = 0x80;

/// QUERY's answer for addresses and GIDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressAnswer {
    /// The device's GUID and port, once the id has a device.
    pub device: Option<(u64, u8)>,
    /// The P_Key of the port's IPoIB interface; 0 on Ethernet.
    pub pkey: u16,
    /// The id's own address.
    pub src: Option<Sockaddr>,
    /// Its peer's.
    pub dst: Option<Sockaddr>,
}

impl AddressAnswer {
    /// Encodes to 272 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let size = |address: Option<Sockaddr>| address.map_or(0, |address| address.size() as u16);
        let room = |address: Option<Sockaddr>| address.map(Sockaddr::to_room).unwrap_or_default();
        let (node_guid, port_num) = self.device.unwrap_or_default();
        let answer = QueryAddrResp {
            node_guid: node_guid.into(),
            port_num,
            pkey: self.pkey.to_be(),
            src_size: size(self.src),
            dst_size: size(self.dst),
            src_addr: room(self.src),
            dst_addr: room(self.dst),
            ..QueryAddrResp::default()
        };
        answer.as_bytes()[..QUERY_ADDR_MIN].to_vec()
    }
}

/// A path between two ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathRecord {
    /// Service asked for, known to the side that was asked.
    pub service_id: u64,
    /// The peer's GID.
    pub dgid: [u8; 16],
    /// The own GID.
    pub sgid: [u8; 16],
    /// The peer's LID; 0 on Ethernet.
    pub dlid: u16,
    /// The own LID; 0 on Ethernet.
    pub slid: u16,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Traffic class.
    pub traffic_class: u8,
    /// Path MTU (`ib_mtu`).
    pub mtu: u8,
    /// Packet life time: 4.096 us times two to this power.
    pub packet_life_time: u8,
}

impl PathRecord {
    fn to_data(self) -> PathRecData {
        let hops = u32::from(AhAttr::HOP_LIMIT);
        let path_rec = abi::PathRecord {
            service_id: self.service_id.into(),
            dgid: self.dgid,
            sgid: self.sgid,
            dlid: self.dlid.into(),
            slid: self.slid.into(),
            flowlabel_hoplimit: (self.flow_label << 8 | hops).into(),
            tclass: self.traffic_class,
            reversible_numpath: REVERSIBLE,
            pkey: DEFAULT_PKEY.into(),
            mtu: EXACTLY | self.mtu,
            rate: EXACTLY,
            packetlifetime: EXACTLY | self.packet_life_time,
            ..abi::PathRecord::default()
        };
        PathRecData { flags: PATH_FLAGS, reserved: 0, path_rec }
    }

    fn to_user(self) -> UserPathRec {
        UserPathRec {
            dlid: self.dlid.into(),
            slid: self.slid.into(),
            flow_label: self.flow_label.into(),
            reversible: 1,
            mtu: self.mtu.into(),
            hop_limit: AhAttr::HOP_LIMIT,
            traffic_class: self.traffic_class,
            mtu_selector: SELECTOR_EXACTLY,
            rate_selector: SELECTOR_EXACTLY,
            packet_life_time_selector: SELECTOR_EXACTLY,
            packet_life_time: self.packet_life_time,
            ..self.to_unresolved()
        }
    }

    /// With the GIDs alone.
    fn to_unresolved(self) -> UserPathRec {
        let Self { dgid, sgid, .. } = self;
        UserPathRec { dgid, sgid, pkey: DEFAULT_PKEY.into(), ..UserPathRec::default() }
    }
}

/// QUERY's answer for paths: as many as there are and as fit in `room` bytes.
pub fn path_answer(paths: &[PathRecord], room: usize) -> Vec<u8> {
    let mut bytes =
        QueryPathResp { num_paths: paths.len() as u32, reserved: 0 }.as_bytes().to_vec();
    let fitting = room.saturating_sub(QUERY_PATH_MIN) / size_of::<PathRecData>();
    paths.iter().take(fitting).for_each(|path| bytes.extend(path.to_data().as_bytes()));
    bytes
}

/// QUERY_ROUTE's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteAnswer {
    /// The device's GUID and port, once the id has a device.
    pub device: Option<(u64, u8)>,
    /// The path; before it is resolved with the GIDs alone.
    pub path: PathRecord,
    /// Whether the path is resolved.
    pub is_resolved: bool,
    /// The id's own address.
    pub src: Option<Sockaddr>,
    /// Its peer's.
    pub dst: Option<Sockaddr>,
}

impl RouteAnswer {
    /// Encodes to 200 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let room = |address: Option<Sockaddr>| -> SockaddrIn6 {
            let room: abi::Room<{ size_of::<SockaddrIn6>() }> =
                address.map(Sockaddr::to_room).unwrap_or_default();
            zerocopy::transmute!(room)
        };
        let mut answer = QueryRouteResp {
            src_addr: room(self.src),
            dst_addr: room(self.dst),
            ..QueryRouteResp::default()
        };
        if let Some((node_guid, port_num)) = self.device {
            (answer.node_guid, answer.port_num) = (node_guid.into(), port_num);
            answer.num_paths = self.is_resolved.into();
            answer.ib_route[0] =
                if self.is_resolved { self.path.to_user() } else { self.path.to_unresolved() };
        }
        answer.as_bytes()[..QUERY_ROUTE_MIN].to_vec()
    }
}

/// INIT_QP_ATTR's answer (`ib_uverbs_qp_attr`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpAttr {
    /// Which of the fields to use.
    pub mask: QpAttrMask,
    /// State.
    pub qp_state: u32,
    /// Path MTU (`ib_mtu`).
    pub path_mtu: u32,
    /// Q key.
    pub qkey: u32,
    /// First packet number expected.
    pub rq_psn: u32,
    /// First packet number sent.
    pub sq_psn: u32,
    /// The peer's queue pair.
    pub dest_qp_num: u32,
    /// Operations that the peer may do.
    pub access: u32,
    /// The way to the peer.
    pub ah_attr: Option<AhAttr>,
    /// Reads and atomics outstanding.
    pub max_rd_atomic: u8,
    /// Reads and atomics served at once.
    pub max_dest_rd_atomic: u8,
    /// Port.
    pub port_num: u8,
    /// Acknowledgement timeout.
    pub timeout: u8,
    /// Retries after a missing acknowledgement.
    pub retry_cnt: u8,
    /// Retries when the receiver is not ready.
    pub rnr_retry: u8,
}

impl QpAttr {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let attr = answer::QpAttr {
            qp_attr_mask: self.mask.bits(),
            qp_state: self.qp_state,
            path_mtu: self.path_mtu,
            qkey: self.qkey,
            rq_psn: self.rq_psn,
            sq_psn: self.sq_psn,
            dest_qp_num: self.dest_qp_num,
            qp_access_flags: self.access,
            ah_attr: self.ah_attr.map(AhAttr::to_kernel).unwrap_or_default(),
            max_rd_atomic: self.max_rd_atomic,
            max_dest_rd_atomic: self.max_dest_rd_atomic,
            port_num: self.port_num,
            timeout: self.timeout,
            retry_cnt: self.retry_cnt,
            rnr_retry: self.rnr_retry,
            ..Default::default()
        };
        attr.to_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let src = Some(Sockaddr::Ip("10.9.0.1:7471".parse().unwrap()));
        let dst = Some(Sockaddr::Ip("[::1]:2".parse().unwrap()));
        let device = Some((0xf073_5cff_fed2_226d, 1));
        let bytes = AddressAnswer { device, pkey: 0x8002, src, dst }.encode();
        assert_eq!(bytes.len(), 272);
        assert_eq!(bytes[..9], [0xf0, 0x73, 0x5c, 0xff, 0xfe, 0xd2, 0x22, 0x6d, 1]);
        assert_eq!(bytes[9..16], [0, 0x80, 2, 16, 0, 28, 0]);
        assert_eq!(bytes[16..24], [2, 0, 0x1d, 0x2f, 10, 9, 0, 1]);
        assert_eq!(bytes[24..144], [0; 120]);
        assert_eq!(bytes[144..148], [10, 0, 0, 2]);
        assert_eq!(AddressAnswer::default().encode(), [0; 272]);
    }

    fn path() -> PathRecord {
        PathRecord {
            service_id: 0x0106_1d2f,
            dgid: [0xd; 16],
            sgid: [0x5; 16],
            dlid: 0x1234,
            slid: 0x5678,
            flow_label: 0xabcde,
            traffic_class: 7,
            mtu: 3,
            packet_life_time: 18,
        }
    }

    #[test]
    fn paths() {
        let bytes = path_answer(&[path()], 440);
        assert_eq!(bytes.len(), 80);
        assert_eq!(bytes[..16], [1, 0, 0, 0, 0, 0, 0, 0, 0x2b, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..24], [0, 0, 0, 0, 1, 6, 0x1d, 0x2f]);
        assert_eq!(bytes[24..40], [0xd; 16]);
        assert_eq!(bytes[40..56], [0x5; 16]);
        assert_eq!(bytes[56..60], [0x12, 0x34, 0x56, 0x78]);
        assert_eq!(bytes[60..66], [0xa, 0xbc, 0xde, 64, 7, 0x80]);
        assert_eq!(bytes[66..80], [0xff, 0xff, 0, 0, 0x83, 0x80, 0x92, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(path_answer(&[path()], 79), [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(path_answer(&[], 440), [0; 8]);
    }

    #[test]
    fn routes() {
        let src = Some(Sockaddr::Ip("10.9.0.1:7471".parse().unwrap()));
        let mut answer =
            RouteAnswer { device: Some((1, 1)), path: path(), src, ..Default::default() };
        let bytes = answer.encode();
        assert_eq!((bytes.len(), bytes[7], bytes[196], bytes[192]), (200, 1, 1, 0));
        assert_eq!((&bytes[8..24], &bytes[60..62]), (&[0xd; 16][..], &[0xff, 0xff][..]));
        assert_eq!(bytes[136..144], [2, 0, 0x1d, 0x2f, 10, 9, 0, 1]);
        answer.is_resolved = true;
        let bytes = answer.encode();
        assert_eq!(bytes[192], 1);
        assert_eq!(bytes[40..44], [0x12, 0x34, 0x56, 0x78]);
        assert_eq!(
            bytes[48..72],
            [
                0, 0xa, 0xbc, 0xde, 1, 0, 0, 0, 3, 0, 0, 0, 0xff, 0xff, 64, 7, 0, 0, 2, 2, 0, 2,
                18, 0
            ]
        );
        answer.device = None;
        assert_eq!(answer.encode()[..136], [0; 136]);
    }

    #[test]
    fn queue_pair_attributes() {
        let ah_attr = AhAttr { dgid: [3; 16], port_num: 1, sgid_index: 1, ..AhAttr::default() };
        let attr = QpAttr {
            mask: QpAttrMask::RTR_RC,
            qp_state: 2,
            path_mtu: 3,
            qkey: 4,
            rq_psn: 5,
            sq_psn: 6,
            dest_qp_num: 7,
            access: 8,
            ah_attr: Some(ah_attr),
            max_rd_atomic: 9,
            max_dest_rd_atomic: 10,
            port_num: 1,
            timeout: 19,
            retry_cnt: 11,
            rnr_retry: 12,
        };
        let bytes = attr.encode();
        assert_eq!(bytes[..16], [0x81, 0x91, 0x12, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
        let words = [0, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0];
        assert_eq!(bytes[16..40], words);
        assert_eq!(bytes[40..56], [3; 16]);
        // As recorded on the kernel for a RoCE peer.
        assert_eq!(bytes[56..72], [0, 0, 0, 0, 1, 0x40, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0]);
        assert_eq!(bytes[72..128], [0; 56]);
        assert_eq!(bytes[128..144], [0, 0, 9, 10, 0, 1, 19, 11, 12, 0, 0, 0, 0, 0, 0, 0]);
    }
}
