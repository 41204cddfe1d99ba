//! Commands of three files and datagrams of other hosts, well-formed ones in any order and any
//! bytes: the tables agree with each other after each step, what a program is told comes from its
//! peer, and at the end nothing is left.

use arbitrary::{Result, Unstructured};
use soft_hca_core::errno::Errno;
use soft_hca_core::uapi::ucma::{Accept, ConnParam, Connect, Reject, command, event_type};

use crate::ucma::FileId;
use crate::ucma::tests::*;

/// Errors that the kernel's `ucma.c` and what lies under it answer with.
const ERRORS: [i32; 15] = [
    libc::EOPNOTSUPP,
    libc::EINVAL,
    libc::ENOENT,
    libc::EBADF,
    libc::ENOSPC,
    libc::ENOSYS,
    libc::ENOMEM,
    libc::EAGAIN,
    libc::EFAULT,
    libc::ENODEV,
    libc::EADDRINUSE,
    libc::EADDRNOTAVAIL,
    libc::ENETUNREACH,
    libc::EAFNOSUPPORT,
    libc::EPROTONOSUPPORT,
];

const ADDRESSES: [&str; 13] = [
    "10.9.0.2:7471",
    "10.9.0.1:7471",
    "0.0.0.0:7471",
    "127.0.0.1:7471",
    "[::]:7471",
    "[fd00::1]:7471",
    "10.9.0.1:7472",
    "10.9.0.1:0",
    "0.0.0.0:0",
    "10.9.0.99:1",
    "203.0.113.1:1",
    "239.0.0.1:0",
    "[ff0e::7]:0",
];

/// Any bytes.
pub fn run(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let mut world = World::new();
    world.meet_neighbour();
    let mut files: Vec<FileId> = (1..4).map(|owner| world.cm.open(owner)).collect();
    let mut sent = Vec::new();
    while !u.is_empty() && step(&mut world, &mut files, &mut sent, &mut u).is_ok() {
        check(&world);
    }
    files.into_iter().for_each(|file| world.close(file));
    world.forget();
    check_empty(&world);
}

/// Private data of a program: recognisable by its first byte, which is never 0.
fn private_data(u: &mut Unstructured<'_>, sent: &mut Vec<Vec<u8>>) -> Result<Vec<u8>> {
    let len = *u.choose(&[0, 1, 3, 56, 57, 148, 180, 196, 255])?;
    let mark = (sent.len() % 255) as u8 + 1;
    let data: Vec<u8> = (0..len).map(|i: u8| mark.wrapping_add(i)).collect();
    sent.push(data.clone());
    Ok(data)
}

fn step(
    world: &mut World,
    files: &mut [FileId],
    sent: &mut Vec<Vec<u8>>,
    u: &mut Unstructured<'_>,
) -> Result<()> {
    let at = u.choose_index(files.len())?;
    let file = files[at];
    let id = pick_id(world, u)?;
    // Mostly the file that the id belongs to.
    let owner = world.file_of(id).unwrap_or(file);
    let by = if u.ratio(1, 16)? { file } else { owner };
    let address = *u.choose(&ADDRESSES)?;
    // Nobody's messages arrive, but for those below.
    world.cm.take_messages();
    let outcome = match u.int_in_range(0..=27)? {
        0 | 1 => create(world, u, file)?,
        2 => world.bind(by, id, address),
        3 => world.listen(by, id, u.int_in_range(0..=3)?),
        4 | 5 => world.resolve(by, id, address),
        6 => world.resolve_from(by, id, Some(*u.choose(&ADDRESSES)?), address),
        7 | 8 => world.route(by, id),
        9 | 10 => {
            let private_data = private_data(u, sent)?;
            let (qp_num, retry_count) = (u.arbitrary()?, u.arbitrary()?);
            let param = ConnParam { qp_num, private_data, retry_count, ..ConnParam::default() };
            match u.int_in_range(0..=2)? {
                0 => world.accept(by, id, u.int_in_range(0..=3)?, &param),
                _ => world.connect(by, id, &param),
            }
        }
        11 => {
            let param = ConnParam { private_data: private_data(u, sent)?, ..ConnParam::default() };
            world.accept(by, id, u.int_in_range(0..=3)?, &param)
        }
        12 => world.establish(by, id),
        13 => {
            let data = private_data(u, sent)?;
            world.reject(by, id, u.int_in_range(0..=40)?, &data)
        }
        14 => world.disconnect(by, id),
        15 => world.about(by, command::DESTROY_ID, id, 0).map(drop),
        16 => world.about(file, command::MIGRATE_ID, id, by).map(drop),
        17 => join(world, u, by, id)?,
        18 => world.about(by, command::LEAVE_MCAST, u.int_in_range(0..=4)?, 0).map(drop),
        19 => option(world, u, by, id)?,
        20 => ask(world, u, by, id)?,
        21 => any_bytes(world, u, by, sent)?,
        22..=26 => {
            strangers::datagram(world, u, sent)?;
            Ok(())
        }
        _ => {
            match u.int_in_range(0..=7)? {
                0 => {
                    world.close(file);
                    files[at] = world.cm.open(at + 1);
                }
                1 => world.pass(*u.choose(&[1, S, 5 * S, 100 * S])?),
                _ => fetch(world, file, sent),
            }
            Ok(())
        }
    };
    check_outcome(&outcome);
    Ok(())
}

fn check_outcome<T>(outcome: &soft_hca_core::errno::Result<T>) {
    if let Err(error) = outcome {
        assert!(ERRORS.contains(&error.number()), "{error:?}");
        let has_reason = *error == Errno::EAGAIN || error.reason().is_some();
        assert!(has_reason, "{error:?} for no reason");
    }
}

fn pick_id(world: &World, u: &mut Unstructured<'_>) -> Result<u32> {
    // Numbers are given from 0 on, the lowest free one first.
    match u.arbitrary::<u8>()? {
        255 => u.arbitrary(),
        any => Ok(u32::from(any) % (world.ids() as u32 + 1)),
    }
}

fn create(
    world: &mut World,
    u: &mut Unstructured<'_>,
    file: FileId,
) -> Result<soft_hca_core::errno::Result<()>> {
    let space = u.choose(&[TCP, TCP, UDP, 2, 0x13f, 0])?.to_le_bytes();
    let kind = [u.int_in_range(2..=4)?];
    let uid = u.int_in_range(0..=3u64)?.to_le_bytes();
    if world.ids() >= 32 {
        return Ok(Ok(()));
    }
    let parts: [(usize, &[u8]); 3] = [(0, &uid), (16, &space), (18, &kind)];
    Ok(world.run(file, command::CREATE_ID, &bytes(24, &parts)).map(drop))
}

fn join(
    world: &mut World,
    u: &mut Unstructured<'_>,
    file: FileId,
    id: u32,
) -> Result<soft_hca_core::errno::Result<()>> {
    let address = sockaddr(u.choose(&ADDRESSES)?);
    let id = id.to_le_bytes();
    let (number, payload) = if u.arbitrary()? {
        let parts: [(usize, &[u8]); 3] = [(8, &[5]), (16, &address), (44, &id)];
        (command::JOIN_IP_MCAST, bytes(48, &parts))
    } else {
        let flags = [u.int_in_range(0..=2)?];
        let size = [address.len() as u8];
        let parts: [(usize, &[u8]); 5] =
            [(8, &[5]), (16, &id), (20, &size), (22, &flags), (24, &address)];
        (command::JOIN_MCAST, bytes(152, &parts))
    };
    Ok(world.run(file, number, &payload).map(drop))
}

fn option(
    world: &mut World,
    u: &mut Unstructured<'_>,
    file: FileId,
    id: u32,
) -> Result<soft_hca_core::errno::Result<()>> {
    let (level, name) = (u.int_in_range(0..=2)?, u.int_in_range(0..=4)?);
    let length = *u.choose(&[1, 4, 4, 0, 80, 160])?;
    let value = u.bytes(length.min(u.len()))?;
    Ok(world.option(file, id, (level, name), value))
}

fn ask(
    world: &mut World,
    u: &mut Unstructured<'_>,
    file: FileId,
    id: u32,
) -> Result<soft_hca_core::errno::Result<()>> {
    let questions =
        [command::QUERY_ROUTE, command::QUERY, command::INIT_QP_ATTR, command::GET_EVENT];
    let number = *u.choose(&questions)?;
    let more = u.int_in_range(0..=7)?;
    Ok(world.about(file, number, id, more).map(drop))
}

fn any_bytes(
    world: &mut World,
    u: &mut Unstructured<'_>,
    file: FileId,
    sent: &mut Vec<Vec<u8>>,
) -> Result<soft_hca_core::errno::Result<()>> {
    let number = u.int_in_range(0..=24)?;
    let room = u.int_in_range(0..=500)?;
    let length = u.int_in_range(0..=300)?;
    let payload = u.bytes(usize::min(length, u.len()))?;
    sent.extend(Connect::decode(payload).map(|connect| connect.param.private_data));
    sent.extend(Accept::decode(payload).map(|accept| accept.param.private_data));
    sent.extend(Reject::decode(payload).map(|reject| reject.private_data));
    let answer = world.cm.command(&mut world.machine, file, number, payload, room, world.now);
    if let Ok(answer) = &answer {
        assert!(answer.len() <= room);
    }
    Ok(answer.map(drop))
}

/// Fetches all events. Private data is what somebody has sent, padded with zeros.
fn fetch(world: &mut World, file: FileId, sent: &[Vec<u8>]) {
    while let Some(event) = world.event(file) {
        let (kind, _, _, id) = summary(&event);
        assert!(kind <= event_type::TIMEWAIT_EXIT);
        if [event_type::MULTICAST_JOIN, event_type::MULTICAST_ERROR].contains(&kind) {
            continue;
        }
        let (start, length_at) = if world.is_datagram(id) { (60, 316) } else { (28, 284) };
        let data = &event[start..][..usize::from(event[length_at])];
        let is_of = |sent: &Vec<u8>| {
            data.strip_prefix(&sent[..]).is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
        };
        assert!(data.iter().all(|byte| *byte == 0) || sent.iter().any(is_of), "{kind} {data:?}");
    }
}
