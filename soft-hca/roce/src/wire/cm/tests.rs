use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::wire::ip::{Addresses, gid};
use crate::wire::mad::MAD_BYTES;
use crate::wire::samples::Random;

const ATTRIBUTES: [u16; 9] = [
    attribute::REQ,
    attribute::MRA,
    attribute::REJ,
    attribute::REP,
    attribute::RTU,
    attribute::DREQ,
    attribute::DREP,
    attribute::SIDR_REQ,
    attribute::SIDR_REP,
];

/// Reserved bits of each message, as ranges of bytes and masks within one.
fn clear_reserved(attribute: u16, data: &mut [u8; DATA_BYTES]) {
    let path = |data: &mut [u8; DATA_BYTES], at: usize, last: u8| {
        data[at + 38] &= 0xf0;
        data[at + 39] &= 0x3f;
        data[at + 42] &= 0xf8;
        data[at + 43] &= last;
    };
    match attribute {
        attribute::REQ => {
            data[4] = 0;
            data[24..28].fill(0);
            path(data, 52, 0xf8);
            path(data, 96, 0xfc);
        }
        attribute::MRA => {
            data[8] &= 0xc0;
            data[9] &= 0xf8;
        }
        attribute::REJ => {
            data[8] &= 0xc0;
            data[9] &= 0xfe;
        }
        attribute::REP => data[27] &= 0xf0,
        attribute::DREQ => data[11] = 0,
        attribute::SIDR_REQ => data[6..8].fill(0),
        attribute::SIDR_REP => {
            data[6..8].fill(0);
            data[11] = 0;
        }
        _ => {}
    }
}

fn mad(attribute: u16, data: [u8; DATA_BYTES]) -> Mad {
    let header = Header {
        base_version: 1,
        class: CLASS,
        class_version: CLASS_VERSION,
        method: METHOD_SEND,
        transaction: 0x1122_3344_5566_7788,
        attribute,
        ..Header::default()
    };
    Mad { header, data }
}

#[test]
fn every_bit_but_reserved_ones_comes_back() {
    let mut random = Random::new(5);
    for attribute in ATTRIBUTES {
        for fill in [None, Some(0x00), Some(0xff), Some(0xa5)] {
            let mut data = [0; DATA_BYTES];
            data.iter_mut().for_each(|byte| *byte = fill.unwrap_or_else(|| random.next() as u8));
            clear_reserved(attribute, &mut data);
            let mad = mad(attribute, data);
            let message = Message::decode(&mad).unwrap();
            assert_eq!(message.encode(mad.header.transaction), mad, "{attribute:04x}");
        }
    }
}

#[test]
fn other_datagrams_are_no_messages() {
    let good = mad(attribute::RTU, [0; DATA_BYTES]);
    assert!(Message::decode(&good).is_ok());
    let changed = |change: fn(&mut Header)| {
        let mut mad = good.clone();
        change(&mut mad.header);
        Message::decode(&mad)
    };
    assert_eq!(changed(|header| header.base_version = 0x80), Err(NoMessage::Class));
    assert_eq!(changed(|header| header.class = 3), Err(NoMessage::Class));
    assert_eq!(changed(|header| header.class_version = 1), Err(NoMessage::Class));
    assert_eq!(changed(|header| header.method = 0x81), Err(NoMessage::Class));
    let alternate = Err(NoMessage::AlternatePath(0x19));
    assert_eq!(changed(|header| header.attribute = attribute::LAP), alternate);
    assert_eq!(changed(|header| header.attribute = 0x1b), Err(NoMessage::Attribute(0x1b)));
}

/// A REQ in the form that the kernel's `rping -s` answers with a REP.
fn accepted_req() -> [u8; MAD_BYTES] {
    let mut bytes = [0; MAD_BYTES];
    bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
    bytes[8..16].copy_from_slice(&0x1122_3344_5566_7788u64.to_be_bytes());
    bytes[17] = 0x10;
    let data = &mut bytes[24..];
    data[..4].copy_from_slice(&[0x51, 0xf0, 0xca, 0x11]);
    data[8..16].copy_from_slice(&[0, 0, 0, 0, 0x01, 0x06, 0x1b, 0xa8]);
    data[16..24].copy_from_slice(&[0x02, 0x00, 0xc0, 0xff, 0xfe, 0x12, 0x34, 0x56]);
    data[32..36].copy_from_slice(&[0x12, 0x34, 0x56, 1]);
    data[39] = 1;
    data[43..48].copy_from_slice(&[0xa1, 0x00, 0x01, 0x00, 0xa7]);
    data[48..56].copy_from_slice(&[0xff, 0xff, 0x37, 0xf0, 0xff, 0xff, 0xff, 0xff]);
    data[66..72].copy_from_slice(&[0xff, 0xff, 10, 9, 0, 2]);
    data[82..88].copy_from_slice(&[0xff, 0xff, 10, 9, 0, 1]);
    data[91..96].copy_from_slice(&[3, 0, 64, 0, 18 << 3]);
    data[141..144].copy_from_slice(&[0x40, 0x9c, 0x40]);
    data[156..160].copy_from_slice(&[10, 9, 0, 2]);
    data[172..176].copy_from_slice(&[10, 9, 0, 1]);
    bytes
}

fn req() -> Req {
    let (local, remote) = (Ipv4Addr::new(10, 9, 0, 2), Ipv4Addr::new(10, 9, 0, 1));
    let addresses = Addresses::V4 { source: local, destination: remote };
    let header = CmaHeader { source_port: 40000, addresses };
    Req {
        local_comm_id: CommId(0x51f0_ca11),
        service_id: service_id(0x0106, 7080),
        local_ca_guid: 0x0200_c0ff_fe12_3456,
        local_qpn: Qpn::new(0x12_3456),
        responder_resources: 1,
        initiator_depth: 1,
        remote_response_timeout: 20,
        flow_control: true,
        starting_psn: Psn::new(0x100),
        local_response_timeout: 20,
        retry_count: 7,
        pkey: 0xffff,
        mtu: 3,
        rnr_retry_count: 7,
        max_cm_retries: 15,
        primary: Path {
            local_lid: NO_LID,
            remote_lid: NO_LID,
            local_gid: gid(IpAddr::V4(local)),
            remote_gid: gid(IpAddr::V4(remote)),
            rate: 3,
            hop_limit: 64,
            ack_timeout: 18,
            ..Path::default()
        },
        private_data: PrivateData::behind(&header, &[]).unwrap(),
        ..Req::default()
    }
}

#[test]
fn a_request_is_as_the_kernel_accepts_it() {
    let bytes = accepted_req();
    let message = Message::Req(req());
    assert_eq!(message.encode(0x1122_3344_5566_7788).encode(), bytes);
    assert_eq!(Message::decode(&Mad::decode(&bytes).unwrap()), Ok(message));
}

#[test]
fn a_disconnection_is_as_the_kernel_accepts_it() {
    let dreq = Dreq {
        local_comm_id: CommId(0x51f0_ca11),
        remote_comm_id: CommId(0x0102_0304),
        remote_qpn: Qpn::new(0x00_0011),
        ..Dreq::default()
    };
    let mad = Message::from(dreq).encode(0x99).encode();
    assert_eq!(
        mad[..24],
        [1, 7, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x99, 0, 0x15, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(mad[24..36], [0x51, 0xf0, 0xca, 0x11, 1, 2, 3, 4, 0, 0, 0x11, 0]);
    assert_eq!(mad[36..], [0; 220]);
}

/// Where single fields lie, which the accepted messages leave 0.
#[test]
fn fields_lie_where_the_specification_puts_them() {
    let data = |message: Message| {
        let data = message.encode(0).data;
        let set = data.iter().enumerate().filter(|(_, byte)| **byte != 0);
        set.map(|(at, byte)| (at, *byte)).collect::<Vec<_>>()
    };
    let uc = Req { transport: transport::UC, srq: true, ..Req::default() };
    assert_eq!(data(uc.into()), [(43, 0x02), (51, 0x08)]);
    let path = Path {
        flow_label: 0xa_bcde,
        service_level: 5,
        subnet_local: true,
        traffic_class: 0x20,
        ..Path::default()
    };
    let alternate = Req { alternate: path, sap_supported: true, ..Req::default() };
    let expected = [(132, 0xab), (133, 0xcd), (134, 0xe0), (136, 0x20), (138, 0x58), (139, 0x04)];
    assert_eq!(data(alternate.into()), expected);
    let mra = Mra { answered: Answered::Other, service_timeout: 24, ..Mra::default() };
    assert_eq!(data(mra.into()), [(8, 0x80), (9, 0xc0)]);
    let rej =
        Rej { rejected: Answered::Rep, info_length: 8, reason: reason::TIMEOUT, ..Rej::default() };
    assert_eq!(data(rej.into()), [(8, 0x40), (9, 0x10), (11, 4)]);
    let rep = Rep {
        local_qpn: Qpn::new(0x11),
        starting_psn: Psn::new(0x22),
        responder_resources: 3,
        initiator_depth: 4,
        target_ack_delay: 1,
        vendor_id: RepVendorId(0x77_8899),
        failover_accepted: 1,
        rnr_retry_count: 7,
        srq: true,
        local_ca_guid: 0x55,
        ..Rep::default()
    };
    let expected = [
        (14, 0x11),
        (15, 0x99),
        (19, 0x88),
        (22, 0x22),
        (23, 0x77),
        (24, 3),
        (25, 4),
        (26, 0x0a),
        (27, 0xf0),
        (35, 0x55),
    ];
    assert_eq!(data(rep.into()), expected);
    let sidr =
        SidrRep { status: 1, qpn: Qpn::new(0x11), service_id: 2, qkey: 3, ..SidrRep::default() };
    assert_eq!(data(sidr.into()), [(4, 1), (10, 0x11), (19, 2), (23, 3)]);
}

#[test]
fn private_data_have_room_or_not() {
    assert_eq!(PrivateData::<3>::new(&[1, 2]).unwrap()[..], [1, 2, 0]);
    assert_eq!(PrivateData::<3>::new(&[1, 2, 3, 4]), None);
    let addresses =
        Addresses::V4 { source: [10, 9, 0, 1].into(), destination: [1, 2, 3, 4].into() };
    let header = CmaHeader { source_port: 7, addresses };
    let data = PrivateData::<38>::behind(&header, &[5, 6]).unwrap();
    assert_eq!(data.split_header(), Some((header, &[5, 6][..])));
    assert_eq!(PrivateData::<38>::behind(&header, &[5, 6, 7]), None);
    assert_eq!(PrivateData::<35>::behind(&header, &[]), None);
    assert_eq!(PrivateData::<35>::default().split_header(), None);
    assert_eq!(PrivateData::<36>::default().split_header(), None);
}

#[test]
fn service_ids_are_ports() {
    assert_eq!(service_id(0x0106, 7471), 0x0106_1d2f);
    assert_eq!(port(0x0111_1d2f), Some((0x0111, 7471)));
    assert_eq!(port(0x1000_0000_0106_1d2f), None);
}

proptest! {
    #[test]
    fn addresses_come_back(
        source: Ipv6Addr, destination: Ipv6Addr, v4: (Ipv4Addr, Ipv4Addr), source_port: u16,
    ) {
        let v6 = Addresses::V6 { source, destination };
        for addresses in [v6, Addresses::V4 { source: v4.0, destination: v4.1 }] {
            let header = CmaHeader { source_port, addresses };
            prop_assert_eq!(CmaHeader::decode(&header.encode()), Some(header));
        }
    }

    #[test]
    fn nothing_random_panics(
        attribute in 0x0f..0x1cu16, data: [u8; 32], rest: [u8; 32], header: [u8; 36],
    ) {
        let mut all = [data, rest].concat();
        all.resize(DATA_BYTES, data[0]);
        let mad = mad(attribute, all.try_into().unwrap());
        if let Ok(message) = Message::decode(&mad) {
            let encoded = message.encode(mad.header.transaction);
            prop_assert_eq!(Message::decode(&encoded), Ok(message));
        }
        if let Some(header) = CmaHeader::decode(&header) {
            prop_assert_eq!(CmaHeader::decode(&header.encode()), Some(header));
        }
    }
}
