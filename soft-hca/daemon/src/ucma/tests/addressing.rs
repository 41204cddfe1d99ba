use soft_hca_core::uapi::ucma::event_type::{
    ADDR_ERROR, ADDR_RESOLVED, CONNECT_REQUEST, ROUTE_RESOLVED,
};

use super::*;

/// An id's own address, as QUERY gives it.
fn src(world: &mut World, file: FileId, id: u32) -> String {
    let answer = world.about(file, command::QUERY, id, 0).unwrap();
    match answer[12] {
        0 => "none".to_string(),
        16 => {
            let ip: [u8; 4] = answer[20..24].try_into().unwrap();
            format!("{}", IpAddr::from(ip))
        }
        28 => {
            let ip: [u8; 16] = answer[24..40].try_into().unwrap();
            format!("{}", IpAddr::from(ip))
        }
        other => format!("{other} bytes"),
    }
}

fn port(world: &mut World, file: FileId, id: u32) -> u16 {
    let answer = world.about(file, command::QUERY, id, 0).unwrap();
    u16::from_be_bytes([answer[18], answer[19]])
}

fn has_device(world: &mut World, file: FileId, id: u32) -> bool {
    let answer = world.about(file, command::QUERY, id, 0).unwrap();
    let has_guid = answer[..8] == GUID.to_be_bytes();
    assert!(has_guid || answer[..8] == [0; 8]);
    assert_eq!(answer[8], u8::from(has_guid));
    has_guid
}

#[test]
fn binding() {
    let (mut world, file, _) = World::with_files();
    let id = world.create(file, 1, TCP);
    assert_eq!(src(&mut world, file, id), "none");
    assert_eq!(world.bind(file, id, "10.9.0.99:1"), Err(Errno::EADDRNOTAVAIL));
    assert_eq!(world.bind(file, id, "[fe80::1]:1"), Err(Errno::EINVAL));
    assert_eq!(world.cm.listing()[0].state, "IDLE");
    world.bind(file, id, "10.9.0.1:7471").unwrap();
    assert_eq!(world.bind(file, id, "10.9.0.1:7472"), Err(Errno::EINVAL));
    assert!(has_device(&mut world, file, id));
    let answer = world.about(file, command::QUERY, id, 0).unwrap();
    assert_eq!(answer.len(), 272);
    assert_eq!(answer[9..24], [0, 0, 0, 16, 0, 16, 0, 2, 0, 0x1d, 0x2f, 10, 9, 0, 1]);
    assert_eq!(answer[144..152], [2, 0, 0, 0, 0, 0, 0, 0]);

    let everywhere = world.create(file, 1, TCP);
    world.bind(file, everywhere, "0.0.0.0:0").unwrap();
    assert!(!has_device(&mut world, file, everywhere));
    assert!((32768..61000).contains(&port(&mut world, file, everywhere)));
    for address in ["127.0.0.1:0", "[fd00::1]:0", "[fe80::1%2]:0"] {
        let id = world.create(file, 1, TCP);
        world.bind(file, id, address).unwrap();
        assert!(has_device(&mut world, file, id), "{address}");
    }
    let ipoib = world.create(file, 1, 2);
    assert_eq!(world.bind(file, ipoib, "10.9.0.1:0"), Err(Errno::EINVAL));
}

/// On a link what other hosts do not reach leads to no device until the id has a peer, and to this
/// machine's listeners then.
#[test]
fn on_a_link() {
    let (mut world, server, client) = World::on_link();
    for (address, has) in
        [("10.9.0.1:0", true), ("127.0.0.1:0", false), ("[fd00::1]:0", false), ("[::1]:0", false)]
    {
        let id = world.create(server, 1, TCP);
        world.bind(server, id, address).unwrap();
        assert_eq!(has_device(&mut world, server, id), has, "{address}");
        world.destroy(server, id).unwrap();
    }
    for (address, index) in [("127.0.0.1:7471", 1), ("[fd00::1]:7471", 0)] {
        let listener = world.listener(server, 1, TCP, address);
        let active = world.routed(client, 2, TCP, address);
        assert!(has_device(&mut world, client, active), "{address}");
        let source = world.id(active).unwrap().source.as_ref().unwrap();
        assert_eq!(source.gid_index, index, "{address}");
        world.connect(client, active, &ConnParam::default()).unwrap();
        assert_eq!(world.events(server), [CONNECT_REQUEST], "{address}");
        world.destroy(client, active).unwrap();
        world.destroy(server, listener).unwrap();
    }
}

#[test]
fn ports() {
    let (mut world, file, other) = World::with_files();
    let first = world.create(file, 1, TCP);
    world.bind(file, first, "10.9.0.1:7471").unwrap();
    let second = world.create(other, 1, TCP);
    assert_eq!(world.bind(other, second, "10.9.0.1:7471"), Err(Errno::EADDRINUSE));
    assert_eq!(world.bind(other, second, "0.0.0.0:7471"), Err(Errno::EADDRNOTAVAIL));
    assert_eq!(world.bind(other, second, "[::]:7471"), Err(Errno::EADDRNOTAVAIL));
    world.bind(other, second, "127.0.0.1:7471").unwrap();
    let datagrams = world.create(other, 1, UDP);
    world.bind(other, datagrams, "10.9.0.1:7471").unwrap();
    let everywhere = world.create(other, 1, TCP);
    assert_eq!(world.bind(other, everywhere, "0.0.0.0:7471"), Err(Errno::EADDRNOTAVAIL));
    // IPv6 alone does not touch IPv4.
    world.option(other, everywhere, (0, 2), &[1, 0, 0, 0]).unwrap();
    world.bind(other, everywhere, "[::]:7471").unwrap();
    world.destroy(file, first).unwrap();
    let third = world.create(other, 1, TCP);
    world.bind(other, third, "10.9.0.1:7471").unwrap();
}

#[test]
fn sharing_a_port() {
    let (mut world, file, _) = World::with_files();
    let (first, second) = (world.create(file, 1, TCP), world.create(file, 2, TCP));
    world.option(file, first, (0, 1), &[1, 0, 0, 0]).unwrap();
    world.bind(file, first, "10.9.0.1:7471").unwrap();
    assert_eq!(world.bind(file, second, "10.9.0.1:7471"), Err(Errno::EADDRINUSE));
    world.option(file, second, (0, 1), &[1, 0, 0, 0]).unwrap();
    world.bind(file, second, "10.9.0.1:7471").unwrap();
    assert_eq!(world.listen(file, first, 0), Err(Errno::EADDRINUSE));
    world.destroy(file, second).unwrap();
    world.listen(file, first, 0).unwrap();
    // A listener shares with nobody any more.
    let third = world.create(file, 3, TCP);
    world.option(file, third, (0, 1), &[1, 0, 0, 0]).unwrap();
    assert_eq!(world.bind(file, third, "10.9.0.1:7471"), Err(Errno::EADDRINUSE));
    assert_eq!(world.option(file, first, (0, 1), &[1, 0, 0, 0]), Err(Errno::EINVAL));
}

#[test]
fn listening() {
    let (mut world, file, _) = World::with_files();
    let id = world.create(file, 1, TCP);
    world.listen(file, id, 0).unwrap();
    assert_eq!(src(&mut world, file, id), "0.0.0.0");
    assert_ne!(port(&mut world, file, id), 0);
    assert_eq!(world.listen(file, id, 0), Err(Errno::EINVAL));
    let resolved = world.create(file, 1, TCP);
    world.resolve(file, resolved, "10.9.0.1:1").unwrap();
    assert_eq!(world.listen(file, resolved, 0), Err(Errno::EINVAL));
    assert_eq!(world.cm.listing()[0].to_string(), {
        let port = port(&mut world, file, id);
        format!("{id} state LISTEN ps TCP src-addr 0.0.0.0:{port}")
    });
}

/// Whether a request from one address reaches a listener at another.
fn reaches(listener: &str, to: &str) -> bool {
    let (mut world, server, client) = World::with_files();
    world.listener(server, 1, TCP, listener);
    let active = world.routed(client, 2, TCP, to);
    world.connect(client, active, &ConnParam::default()).unwrap();
    world.events(server) == [4]
}

#[test]
fn who_hears_a_request() {
    for (listener, to, expected) in [
        ("10.9.0.1:7471", "10.9.0.1:7471", true),
        ("10.9.0.1:7471", "10.9.0.1:7472", false),
        ("10.9.0.1:7471", "127.0.0.1:7471", false),
        ("127.0.0.1:7471", "127.0.0.1:7471", true),
        ("127.0.0.1:7471", "0.0.0.0:7471", true),
        ("0.0.0.0:7471", "127.0.0.1:7471", true),
        ("0.0.0.0:7471", "10.9.0.1:7471", true),
        ("0.0.0.0:7471", "[fd00::1]:7471", false),
        ("[::]:7471", "[fd00::1]:7471", true),
        ("[::]:7471", "10.9.0.1:7471", true),
        ("[fd00::1]:7471", "[fd00::1]:7471", true),
        ("[fe80::1%2]:7471", "[fe80::1%2]:7471", true),
        ("10.9.0.1:7471", "[::ffff:10.9.0.1]:7471", true),
    ] {
        assert_eq!(reaches(listener, to), expected, "{listener} from {to}");
    }
}

#[test]
fn resolving() {
    let (mut world, file, _) = World::with_files();
    for (to, from) in [
        ("10.9.0.1:1", "10.9.0.1"),
        ("127.0.0.1:1", "127.0.0.1"),
        ("0.0.0.0:1", "127.0.0.1"),
        ("[fd00::1]:1", "fd00::1"),
        ("[::ffff:10.9.0.1]:1", "::ffff:10.9.0.1"),
    ] {
        let id = world.create(file, 1, TCP);
        assert_eq!(world.route(file, id), Err(Errno::EINVAL));
        world.resolve(file, id, to).unwrap();
        assert_eq!(world.statuses(file), [(ADDR_RESOLVED, 0)], "{to}");
        assert_eq!(src(&mut world, file, id), from);
        assert_ne!(port(&mut world, file, id), 0);
        assert!(has_device(&mut world, file, id));
        assert_eq!(world.resolve(file, id, to), Err(Errno::EINVAL));
        world.route(file, id).unwrap();
        assert_eq!(world.statuses(file), [(ROUTE_RESOLVED, 0)]);
        assert_eq!(world.route(file, id), Err(Errno::EINVAL));
    }
}

#[test]
fn nobody_has_the_address() {
    let (mut world, file, _) = World::with_files();
    let id = world.create(file, 1, TCP);
    world.resolve(file, id, "10.9.0.99:1").unwrap();
    assert_eq!(world.resolve(file, id, "10.9.0.99:1"), Err(Errno::EINVAL));
    assert_eq!(world.cm.next_timer(), Some(world.now + 2 * S));
    world.pass(2 * S - 1);
    assert_eq!(world.statuses(file), []);
    world.pass(1);
    assert_eq!(world.statuses(file), [(ADDR_ERROR, TIMED_OUT)]);
    assert_eq!(world.cm.next_timer(), None);
    // It may try again.
    world.resolve(file, id, "10.9.0.1:1").unwrap();
    assert_eq!(world.statuses(file), [(ADDR_RESOLVED, 0)]);
    // Nothing is heard of an id that has gone meanwhile.
    let id = world.create(file, 1, TCP);
    world.resolve(file, id, "10.9.0.99:1").unwrap();
    world.destroy(file, id).unwrap();
    world.pass(3 * S);
    assert_eq!(world.statuses(file), []);
}

#[test]
fn no_route() {
    let (mut world, file, _) = World::with_files();
    for to in ["203.0.113.1:1", "[2001:db8::1]:1", "239.0.0.1:0"] {
        let id = world.create(file, 1, UDP);
        assert_eq!(world.resolve(file, id, to), Err(Errno::ENETUNREACH), "{to}");
    }
    let id = world.create(file, 1, TCP);
    assert_eq!(world.resolve_from(file, id, Some("10.9.0.1:0"), "[fd00::1]:1"), Err(Errno::EINVAL));
    let id = world.create(file, 1, TCP);
    let foreign = world.resolve_from(file, id, Some("10.9.0.98:0"), "10.9.0.1:1");
    assert_eq!(foreign, Err(Errno::EADDRNOTAVAIL));
    world.resolve_from(file, id, Some("127.0.0.1:4000"), "10.9.0.1:1").unwrap();
    assert_eq!(src(&mut world, file, id), "127.0.0.1");
    assert_eq!(port(&mut world, file, id), 4000);
    let ipoib = world.create(file, 1, 2);
    world.resolve(file, ipoib, "10.9.0.1:1").unwrap();
    assert_eq!(world.statuses(file), [(ADDR_RESOLVED, 0), (ADDR_ERROR, -22)]);
}

#[test]
fn the_older_commands() {
    let (mut world, file, client) = World::with_files();
    let listener = world.create(file, 1, TCP);
    let parts: [(usize, &[u8]); 2] =
        [(8, &sockaddr("10.9.0.1:7471")), (36, &listener.to_le_bytes())];
    world.done(file, command::BIND_IP, &bytes(40, &parts)).unwrap();
    let id = world.create(client, 1, TCP);
    let parts: [(usize, &[u8]); 2] = [(28, &sockaddr("10.9.0.1:7471")), (56, &id.to_le_bytes())];
    world.done(client, command::RESOLVE_IP, &bytes(64, &parts)).unwrap();
    let answer = world.about(client, command::QUERY_ROUTE, id, 0).unwrap();
    assert_eq!((answer.len(), answer[192], answer[196]), (200, 0, 1));
    world.route(client, id).unwrap();
    let answer = world.about(client, command::QUERY_ROUTE, id, 0).unwrap();
    assert_eq!(
        (answer[192], answer[23], answer[56], &answer[60..63]),
        (1, 1, 3, &[0xff, 0xff, 64][..])
    );
    assert_eq!(answer[164..172], [2, 0, 0x1d, 0x2f, 10, 9, 0, 1]);
}

#[test]
fn the_probe_for_infiniband_addresses() {
    let (mut world, file, _) = World::with_files();
    let id = world.create(file, 1, 0x13f);
    let sid = 0x0000_0000_0106_0000u64.to_be_bytes();
    let mask = 0xffff_ffff_ffff_0000u64.to_be_bytes();
    let sockaddr_ib = bytes(48, &[(0, &[27]), (24, &sid), (32, &mask)]);
    let parts: [(usize, &[u8]); 3] = [(0, &id.to_le_bytes()), (4, &[48]), (8, &sockaddr_ib)];
    world.done(file, command::BIND, &bytes(136, &parts)).unwrap();
    for option in [0, 2] {
        let answer = world.about(file, command::QUERY, id, option).unwrap();
        assert_eq!(answer[..16], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 48, 0, 48, 0]);
        assert_eq!(answer[16..46], bytes(30, &[(0, &[27]), (28, &[1, 6])]));
        assert_ne!(answer[46..48], [0, 0]);
        assert_eq!(answer[48..56], [0xff; 8]);
        assert_eq!(answer[144..146], [27, 0]);
    }
    assert_eq!(world.destroy(file, id), Ok(0));
    // There is no InfiniBand port behind a GID.
    let id = world.create(file, 1, 0x13f);
    let sockaddr_ib = bytes(48, &[(0, &[27]), (8, &[9; 16]), (24, &sid), (32, &mask)]);
    let parts: [(usize, &[u8]); 3] = [(0, &id.to_le_bytes()), (4, &[48]), (8, &sockaddr_ib)];
    assert_eq!(world.done(file, command::BIND, &bytes(136, &parts)), Err(Errno::ENODEV));
    // A service id of no port space.
    let sockaddr_ib = bytes(48, &[(0, &[27]), (24, &[0x12; 8]), (32, &mask)]);
    let parts: [(usize, &[u8]); 3] = [(0, &id.to_le_bytes()), (4, &[48]), (8, &sockaddr_ib)];
    let refused = world.done(file, command::BIND, &bytes(136, &parts));
    assert_eq!(refused, Err(Errno::EPROTONOSUPPORT));
}

#[test]
fn gids_and_paths() {
    let (mut world, server, client) = World::with_files();
    let fresh = world.create(client, 1, TCP);
    assert_eq!(world.about(client, command::QUERY, fresh, 1).unwrap(), [0; 8]);
    world.destroy(client, fresh).unwrap();
    let (_, accepted, active) = world.connected(server, client);
    let answer = world.about(client, command::QUERY, active, 2).unwrap();
    assert_eq!(answer[..16], bytes(16, &[(0, &GUID.to_be_bytes()), (8, &[1]), (12, &[48, 0, 48])]));
    let gid = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1];
    assert_eq!((answer[16], &answer[24..40]), (27, &gid[..]));
    assert_eq!(answer[152..168], gid);
    assert_eq!(answer[168..176], 0x0106_1d2fu64.to_be_bytes());

    let answer = world.about(client, command::QUERY, active, 1).unwrap();
    assert_eq!((answer.len(), answer[0], answer[8]), (80, 1, 0x2b));
    assert_eq!(answer[16..24], [0; 8]);
    assert_eq!(answer[24..56], [gid, gid].concat());
    assert_eq!(answer[64..74], [0, 0x80, 0xff, 0xff, 0, 0, 0x83, 0x80, 0x92, 0]);
    let passive = world.about(server, command::QUERY, accepted, 1).unwrap();
    assert_eq!(passive[16..24], 0x0106_1d2fu64.to_be_bytes());
    assert_eq!(passive[24..], answer[24..]);
    assert_eq!(world.about(client, command::QUERY, active, 3), Err(Errno::ENOSYS));
}

#[test]
fn options() {
    let (mut world, file, _) = World::with_files();
    let id = world.create(file, 1, TCP);
    world.option(file, id, (0, 0), &[8]).unwrap();
    world.option(file, id, (0, 3), &[14]).unwrap();
    for (name, value) in [(0, &[1, 2][..]), (1, &[1]), (2, &[1]), (3, &[]), (1, &[])] {
        assert_eq!(world.option(file, id, (0, name), value), Err(Errno::EINVAL));
    }
    assert_eq!(world.option(file, id, (0, 9), &[1]), Err(Errno::ENOSYS));
    assert_eq!(world.option(file, id, (2, 0), &[1]), Err(Errno::ENOSYS));
    assert_eq!(world.option(file, 99, (0, 0), &[1]), Err(Errno::ENOENT));
    let path = bytes(72, &[(0, &[0x2b])]);
    assert_eq!(world.option(file, id, (1, 1), &path), Err(Errno::EINVAL));
    world.resolve(file, id, "10.9.0.1:1").unwrap();
    assert_eq!(world.option(file, id, (0, 2), &[1, 0, 0, 0]), Err(Errno::EINVAL));
    for wrong in [&[][..], &path[..71], &[0; 72]] {
        assert_eq!(world.option(file, id, (1, 1), wrong), Err(Errno::EINVAL));
    }
    world.option(file, id, (1, 1), &path).unwrap();
    assert_eq!(world.statuses(file), [(ADDR_RESOLVED, 0), (ROUTE_RESOLVED, 0)]);
    let answer = world.about(file, command::QUERY, id, 1).unwrap();
    // Traffic class and packet life time.
    assert_eq!((answer[64], answer[72]), (8, 0x80 | 13));
    let datagrams = world.create(file, 1, UDP);
    assert_eq!(world.option(file, datagrams, (0, 3), &[14]), Err(Errno::EINVAL));
}
