//! Events: what GET_EVENT answers.

use std::mem::offset_of;

use zerocopy::IntoBytes;

use super::abi::{self, Ece, Room};
use super::request::{ConnParam, with_length};
use crate::uapi::uverbs::request;

/// Bytes of an event.
pub const EVENT: usize = size_of::<abi::EventResp>();
/// The least room for an event that GET_EVENT accepts: older libraries know no options at the end.
pub const GET_EVENT_MIN: usize = offset_of!(abi::EventResp, reserved);

/// `ib_uverbs_ah_attr` of a RoCE port: the way to a GID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AhAttr {
    /// Where to.
    pub dgid: [u8; 16],
    /// The LID there; 0 on Ethernet.
    pub dlid: u16,
    /// The LID alone leads there, without a global route: to who is in the same InfiniBand subnet.
    pub is_by_lid: bool,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// The port to send from.
    pub port_num: u8,
    /// Index of the GID to send from.
    pub sgid_index: u8,
    /// Traffic class.
    pub traffic_class: u8,
}

impl AhAttr {
    /// Hops that a packet may take.
    pub const HOP_LIMIT: u8 = 64;

    pub(super) fn to_kernel(self) -> request::AhAttr {
        let Self { dgid, dlid, is_by_lid, flow_label, port_num, sgid_index, traffic_class } = self;
        request::AhAttr {
            grh: request::GlobalRoute {
                dgid,
                flow_label,
                sgid_index,
                hop_limit: Self::HOP_LIMIT,
                traffic_class,
                reserved: 0,
            },
            dlid,
            is_global: (!is_by_lid).into(),
            port_num,
            ..request::AhAttr::default()
        }
    }
}

/// `rdma_ucm_ud_param`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UdParam {
    /// Queue pair number.
    pub qp_num: u32,
    /// Q key.
    pub qkey: u32,
    /// The way to it.
    pub ah_attr: Option<AhAttr>,
    /// From the peer's program, at most 255 bytes.
    pub private_data: Vec<u8>,
}

/// Private data of more than 255 bytes is cut.
impl From<&UdParam> for abi::UdParam {
    fn from(param: &UdParam) -> Self {
        let (private_data, private_data_len) = with_length(&param.private_data);
        Self {
            qp_num: param.qp_num,
            qkey: param.qkey,
            ah_attr: param.ah_attr.map(AhAttr::to_kernel).unwrap_or_default(),
            private_data,
            private_data_len,
            ..Self::default()
        }
    }
}

/// Parameters of an event beyond its type and status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Param {
    /// Nothing.
    #[default]
    None,
    /// Of a connection.
    Conn(ConnParam),
    /// Of a datagram service or a multicast group.
    Ud(UdParam),
    /// Of an event that a program has written.
    Arg(u64),
}

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The program's name for what it is about.
    pub uid: u64,
    /// The id, or for multicast events the membership.
    pub id: u32,
    /// One of [`event_type`](super::event_type).
    pub event: u32,
    /// 0, a reason or a negative error number.
    pub status: i32,
    /// More.
    pub param: Param,
    /// ECE options of the peer.
    pub ece: Ece,
}

impl Event {
    /// Encodes to 336 bytes.
    pub fn encode(&self) -> [u8; EVENT] {
        let param = match &self.param {
            Param::None => Room::default(),
            Param::Conn(param) => Room::of(abi::ConnParam::from(param).as_bytes()),
            Param::Ud(param) => Room::of(abi::UdParam::from(param).as_bytes()),
            Param::Arg(arg) => Room::of(arg.as_bytes()),
        };
        let event = abi::EventResp {
            uid: self.uid,
            id: self.id,
            event: self.event,
            status: self.status,
            param,
            reserved: 0,
            ece: self.ece,
        };
        zerocopy::transmute!(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_event() {
        let param = ConnParam {
            qp_num: 0x112233,
            private_data: vec![7; 56],
            srq: 1,
            responder_resources: 2,
            initiator_depth: 3,
            flow_control: 4,
            retry_count: 5,
            rnr_retry_count: 6,
            ..ConnParam::default()
        };
        let ece = Ece { vendor_id: 0x15b3, attr_mod: 9 };
        let event = Event {
            uid: 0x1122_3344_5566_7788,
            id: 3,
            event: 4,
            status: -110,
            param: Param::Conn(param),
            ece,
        };
        let bytes = event.encode();
        assert_eq!(bytes[..8], [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
        assert_eq!(bytes[8..20], [3, 0, 0, 0, 4, 0, 0, 0, 0x92, 0xff, 0xff, 0xff]);
        assert_eq!(bytes[20..28], [0x33, 0x22, 0x11, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[28..84], [7; 56]);
        assert_eq!(bytes[84..284], [0; 200]);
        assert_eq!(bytes[284..292], [56, 1, 2, 3, 4, 5, 6, 0]);
        assert_eq!(bytes[292..328], [0; 36]);
        assert_eq!(bytes[328..], [0xb3, 0x15, 0, 0, 9, 0, 0, 0]);
    }

    #[test]
    fn a_datagram_event() {
        let ah = AhAttr {
            dgid: [5; 16],
            dlid: 0,
            is_by_lid: false,
            flow_label: 0x12345,
            port_num: 1,
            sgid_index: 1,
            traffic_class: 8,
        };
        let param = UdParam {
            qp_num: 0xffffff,
            qkey: super::super::UDP_QKEY,
            ah_attr: Some(ah),
            private_data: vec![9; 136],
        };
        let event = Event { uid: 1, id: 2, event: 12, param: Param::Ud(param), ..Event::default() };
        let bytes = event.encode();
        assert_eq!(bytes[20..28], [0xff, 0xff, 0xff, 0, 0x67, 0x45, 0x23, 0x01]);
        assert_eq!(bytes[28..44], [5; 16]);
        assert_eq!(bytes[44..60], [0x45, 0x23, 1, 0, 1, 64, 8, 0, 0, 0, 0, 0, 0, 1, 1, 0]);
        assert_eq!(bytes[60..196], [9; 136]);
        assert_eq!(bytes[316], 136);
        assert_eq!(bytes[317..], [0; 19]);
    }
}
