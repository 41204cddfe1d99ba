use super::*;

fn bytes(len: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (at, part) in parts {
        bytes[*at..at + part.len()].copy_from_slice(part);
    }
    bytes
}

const V4: [u8; 8] = [2, 0, 0x1d, 0x2f, 10, 9, 0, 1];

fn v4() -> Sockaddr {
    Sockaddr::Ip("10.9.0.1:7471".parse().unwrap())
}

#[test]
fn create_id() {
    let payload = bytes(24, &[(0, &[9, 8, 7, 6, 5, 4, 3, 2]), (16, &[0x06, 0x01, 2])]);
    let expected = CreateId { uid: 0x0203_0405_0607_0809, ps: 0x106, qp_type: 2 };
    assert_eq!(CreateId::decode(&payload), Ok(expected));
    assert_eq!(CreateId::decode(&payload[..23]), Err(Errno::EINVAL));
}

#[test]
fn targets() {
    assert_eq!(Target::decode(&bytes(16, &[(8, &[5])])), Ok(Target { id: 5 }));
    assert_eq!(Target::decode(&bytes(12, &[])), Err(Errno::EINVAL));
    assert_eq!(disconnect_id(&[7, 1, 0, 0]), Ok(0x107));
    assert_eq!(disconnect_id(&[7, 1, 0]), Err(Errno::EINVAL));
    let query = bytes(16, &[(8, &[5]), (12, &[2])]);
    assert_eq!(Query::decode(&query), Ok(Query { id: 5, option: 2 }));
    assert_eq!(MigrateId::decode(&query), Ok(MigrateId { id: 5, file: 2 }));
    assert_eq!(InitQpAttr::decode(&query), Ok(InitQpAttr { id: 5, qp_state: 2 }));
    assert_eq!(InitQpAttr::decode(&query[..15]), Err(Errno::EINVAL));
}

#[test]
fn bind() {
    let payload = bytes(136, &[(0, &[3]), (4, &[16]), (8, &V4)]);
    assert_eq!(Bind::decode(&payload), Ok(Bind { id: 3, address: v4() }));
    for (at, wrong) in [(4, 0), (4, 28), (6, 1), (8, 77), (8, 0)] {
        let mut payload = payload.clone();
        payload[at] = wrong;
        assert_eq!(Bind::decode(&payload), Err(Errno::EINVAL), "byte {at} is {wrong}");
    }
    assert_eq!(Bind::decode(&payload[..135]), Err(Errno::EINVAL));
    let payload = bytes(40, &[(8, &V4), (36, &[3])]);
    assert_eq!(Bind::decode_ip(&payload), Ok(Bind { id: 3, address: v4() }));
    assert_eq!(Bind::decode_ip(&bytes(40, &[])), Err(Errno::EINVAL));
}

#[test]
fn resolve() {
    let payload = bytes(272, &[(0, &[3]), (4, &[0xd0, 7]), (10, &[16]), (144, &V4)]);
    let expected = ResolveAddr { id: 3, timeout_ms: 2000, src: None, dst: v4() };
    assert_eq!(ResolveAddr::decode(&payload), Ok(expected));
    let with_src = bytes(272, &[(8, &[16]), (10, &[16]), (16, &V4), (144, &V4)]);
    assert_eq!(ResolveAddr::decode(&with_src).unwrap().src, Some(v4()));
    for (at, wrong) in [(8, 16), (10, 0), (12, 1), (144, 0)] {
        let mut payload = payload.clone();
        payload[at] = wrong;
        assert_eq!(ResolveAddr::decode(&payload), Err(Errno::EINVAL), "byte {at} is {wrong}");
    }
    let payload = bytes(64, &[(28, &V4), (56, &[3]), (60, &[0xd0, 7])]);
    assert_eq!(ResolveAddr::decode_ip(&payload), Ok(expected));
    assert_eq!(ResolveAddr::decode_ip(&bytes(64, &[])), Err(Errno::EINVAL));
    let route = ResolveRoute { id: 3, timeout_ms: 2000 };
    assert_eq!(ResolveRoute::decode(&[3, 0, 0, 0, 0xd0, 7, 0, 0]), Ok(route));
    let listen = Listen { id: 3, backlog: -1 };
    assert_eq!(Listen::decode(&[3, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]), Ok(listen));
}

#[test]
fn connection_parameters_survive_the_round_trip() {
    let param = ConnParam {
        qp_num: 0x11,
        qkey: 2,
        private_data: vec![1, 2, 3],
        srq: 1,
        responder_resources: 2,
        initiator_depth: 3,
        flow_control: 4,
        retry_count: 5,
        rnr_retry_count: 6,
        valid: 1,
    };
    let in_command = abi::ConnParam::from(&param);
    let encoded = in_command.as_bytes();
    assert_eq!(encoded[..11], [0x11, 0, 0, 0, 2, 0, 0, 0, 1, 2, 3]);
    assert_eq!(encoded[264..], [3, 1, 2, 3, 4, 5, 6, 1]);
    assert_eq!(ConnParam::from(&in_command), param);

    let payload = bytes(288, &[(0, encoded), (272, &[9]), (280, &[1, 0, 0, 0, 2])]);
    let ece = Ece { vendor_id: 1, attr_mod: 2 };
    assert_eq!(Connect::decode(&payload), Ok(Connect { id: 9, param: param.clone(), ece }));
    let old = Connect::decode(&payload[..280]).unwrap();
    assert_eq!((old.id, old.ece), (9, Ece::default()));
    assert_eq!(Connect::decode(&payload[..279]), Err(Errno::EINVAL));

    let payload = bytes(296, &[(0, &[8]), (8, encoded), (280, &[9]), (288, &[1, 0, 0, 0, 2])]);
    assert_eq!(Accept::decode(&payload), Ok(Accept { uid: 8, param, id: 9, ece }));
    assert_eq!(Accept::decode(&payload[..287]), Err(Errno::EINVAL));
}

#[test]
fn reject() {
    let payload = bytes(264, &[(0, &[9]), (4, &[2, 35]), (8, &[1, 2, 3])]);
    let expected = Reject { id: 9, reason: 35, private_data: vec![1, 2] };
    assert_eq!(Reject::decode(&payload), Ok(expected));
    assert_eq!(Reject::decode(&payload[..263]), Err(Errno::EINVAL));
}

#[test]
fn set_option() {
    let payload = bytes(28, &[(8, &[9]), (16, &[1]), (20, &[4]), (24, &[1, 0, 0, 0])]);
    let expected = SetOption { id: 9, level: 0, name: 1, value: vec![1, 0, 0, 0] };
    assert_eq!(SetOption::decode(&payload), Ok(expected));
    assert_eq!(SetOption::decode(&payload[..24]), Err(Errno::EFAULT));
    assert_eq!(SetOption::decode(&payload[..23]), Err(Errno::EINVAL));
    assert_eq!(Notify::decode(&[9, 0, 0, 0, 4, 0, 0, 0]), Ok(Notify { id: 9, event: 4 }));
}

#[test]
fn join() {
    let payload = bytes(152, &[(8, &[5]), (16, &[9]), (20, &[16, 0, 1]), (24, &V4)]);
    let expected = JoinMcast { uid: 5, id: 9, join_flags: 1, address: v4() };
    assert_eq!(JoinMcast::decode(&payload), Ok(expected));
    for (at, wrong) in [(20, 28), (22, 2), (24, 0)] {
        let mut payload = payload.clone();
        payload[at] = wrong;
        assert_eq!(JoinMcast::decode(&payload), Err(Errno::EINVAL), "byte {at} is {wrong}");
    }
    let payload = bytes(48, &[(8, &[5]), (16, &V4), (44, &[9])]);
    assert_eq!(JoinMcast::decode_ip(&payload), Ok(JoinMcast { join_flags: 0, ..expected }));
}
