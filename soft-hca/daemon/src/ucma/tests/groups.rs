use soft_hca_core::uapi::ucma::event_type::ADDR_RESOLVED;

use super::*;

fn join(world: &mut World, file: FileId, id: u32, uid: u8, group: &str) -> Result<u32> {
    let address = sockaddr(group);
    let parts: [(usize, &[u8]); 4] =
        [(8, &[uid]), (16, &id.to_le_bytes()), (20, &[address.len() as u8]), (24, &address)];
    world.run(file, command::JOIN_MCAST, &bytes(152, &parts)).map(|answer| word(&answer, 0))
}

fn leave(world: &mut World, file: FileId, membership: u32) -> Result<u32> {
    world.about(file, command::LEAVE_MCAST, membership, 0).map(|answer| word(&answer, 0))
}

#[test]
fn the_course_of_mckey() {
    let (mut world, file, _) = World::with_files();
    let id = world.create(file, 0xc1, UDP);
    world.bind(file, id, "10.9.0.1:0").unwrap();
    world.resolve(file, id, "239.0.0.1:0").unwrap();
    assert_eq!(world.events(file), [ADDR_RESOLVED]);
    let membership = join(&mut world, file, id, 0x77, "239.0.0.1:0").unwrap();
    let group = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 0, 0, 1];
    let expected = bytes(
        336,
        &[
            (0, &[0x77]),
            (8, &[membership as u8]),
            (12, &[12]),
            (20, &[0xff, 0xff, 0xff, 0, 0x67, 0x45, 0x23, 0x01]),
            (28, &group),
            (48, &[1, 64]),
            (57, &[1, 1]),
        ],
    );
    assert_eq!(world.event(file).unwrap()[..], expected);
    // The event counts for the membership and for the id.
    assert_eq!(leave(&mut world, file, membership), Ok(1));
    assert_eq!(leave(&mut world, file, membership), Err(Errno::ENOENT));
    assert_eq!(world.destroy(file, id), Ok(2));
}

#[test]
fn joining_twice_leaving_early_and_another_files_membership() {
    let (mut world, file, other) = World::with_files();
    let id = world.create(file, 0xc1, UDP);
    world.bind(file, id, "10.9.0.1:0").unwrap();
    let first = join(&mut world, file, id, 1, "239.0.0.1:0").unwrap();
    let second = join(&mut world, file, id, 2, "239.0.0.1:0").unwrap();
    assert_eq!((first, second), (0, 1));
    assert_eq!(leave(&mut world, other, first), Err(Errno::EINVAL));
    assert_eq!(leave(&mut world, file, first), Ok(0));
    let event = world.event(file).unwrap();
    assert_eq!(summary(&event), (12, 0, 2, second));
    assert_eq!(world.event(file), None);
    assert_eq!(world.destroy(file, id), Ok(1));
    assert_eq!(leave(&mut world, file, second), Err(Errno::ENOENT));
}

#[test]
fn what_cannot_join() {
    let (mut world, file, _) = World::with_files();
    let unbound = world.create(file, 1, UDP);
    assert_eq!(join(&mut world, file, unbound, 1, "239.0.0.1:0"), Err(Errno::EINVAL));
    let everywhere = world.create(file, 1, UDP);
    world.bind(file, everywhere, "0.0.0.0:0").unwrap();
    assert_eq!(join(&mut world, file, everywhere, 1, "239.0.0.1:0"), Err(Errno::EINVAL));
    let connected = world.create(file, 1, TCP);
    world.bind(file, connected, "10.9.0.1:0").unwrap();
    assert_eq!(join(&mut world, file, connected, 1, "239.0.0.1:0"), Err(Errno::EINVAL));
    let good = world.create(file, 1, UDP);
    world.bind(file, good, "10.9.0.1:0").unwrap();
    assert_eq!(join(&mut world, file, good, 1, "0.0.0.0:0"), Err(Errno::EINVAL));
    // A unicast address fails only when the queue pair is attached.
    join(&mut world, file, good, 1, "10.9.0.1:0").unwrap();
    assert_eq!(join(&mut world, file, 99, 1, "239.0.0.1:0"), Err(Errno::ENOENT));
}

#[test]
fn the_older_command_and_ipv6() {
    let (mut world, file, _) = World::with_files();
    let id = world.create(file, 1, UDP);
    world.bind(file, id, "[fd00::1]:0").unwrap();
    let parts: [(usize, &[u8]); 3] =
        [(8, &[5]), (16, &sockaddr("[ff02::7]:0")), (44, &id.to_le_bytes())];
    world.run(file, command::JOIN_IP_MCAST, &bytes(48, &parts)).unwrap();
    let event = world.event(file).unwrap();
    assert_eq!((event[28], event[29], event[43], event[48]), (0xff, 2, 7, 2));
}
