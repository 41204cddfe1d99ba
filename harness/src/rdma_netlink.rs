//! Asks the kernel which processes listen with the RDMA connection manager, over
//! the netlink protocol of `<rdma/rdma_netlink.h>`: the question that `rdma resource
//! show cm_id` asks, without starting a program each time.

use std::io::{self, Read};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// `AF_NETLINK` protocol number of RDMA.
const NETLINK_RDMA: i32 = 20;
/// Client number of the device messages; it is the upper part of a message type.
const RDMA_NL_NLDEV: u16 = 5;
/// Names the devices.
const RDMA_NLDEV_CMD_GET: u16 = 1;
/// Names the connection manager identifiers of a device.
const RDMA_NLDEV_CMD_RES_CM_ID_GET: u16 = 11;

const RDMA_NLDEV_ATTR_DEV_INDEX: u16 = 1;
const RDMA_NLDEV_ATTR_RES_STATE: u16 = 27;
const RDMA_NLDEV_ATTR_RES_PID: u16 = 28;
const RDMA_NLDEV_ATTR_RES_CM_ID: u16 = 30;
const RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY: u16 = 31;

/// `RDMA_CM_LISTEN` of the kernel's `enum rdma_cm_state`.
const STATE_LISTEN: u8 = 8;

/// Request, and an answer with all there is.
const FLAGS: u16 = 0x1 | 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Length of a netlink message header.
const HEADER: usize = 16;
/// Bits of an attribute's type that are flags.
const TYPE_MASK: u16 = 0x3fff;

/// The process ids of all listeners. Without RDMA in the kernel there are none.
pub(crate) fn listeners() -> io::Result<Vec<u32>> {
    let protocol = Some(Protocol::from(NETLINK_RDMA));
    let mut socket = match Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, protocol) {
        Ok(socket) => socket,
        Err(error) if error.raw_os_error() == Some(libc::EPROTONOSUPPORT) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    // The kernel answers at once; a lost answer must not hang the run.
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut pids = Vec::new();
    for device in devices(&ask(&mut socket, RDMA_NLDEV_CMD_GET, &[])?) {
        let index = attribute(RDMA_NLDEV_ATTR_DEV_INDEX, &device.to_ne_bytes());
        let answer = ask(&mut socket, RDMA_NLDEV_CMD_RES_CM_ID_GET, &index)?;
        pids.extend(listening_pids(&answer));
    }
    Ok(pids)
}

/// Sends a question and collects the bodies of the answer's messages. A device may
/// be gone by the time it is asked about, so that an error just ends the answer.
fn ask(socket: &mut Socket, command: u16, attributes: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut message = Vec::new();
    let length = u32::try_from(HEADER + attributes.len()).map_err(io::Error::other)?;
    message.extend(length.to_ne_bytes());
    message.extend(((RDMA_NL_NLDEV << 10) | command).to_ne_bytes());
    message.extend(FLAGS.to_ne_bytes());
    // Sequence number and sender: one question at a time needs neither.
    message.extend([0; 8]);
    message.extend(attributes);
    socket.send(&message)?;
    let mut bodies = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = socket.read(&mut buffer)?;
        if !take_messages(&buffer[..count], &mut bodies) {
            return Ok(bodies);
        }
    }
}

/// Splits a datagram into messages; false once the last has come.
fn take_messages(mut bytes: &[u8], bodies: &mut Vec<Vec<u8>>) -> bool {
    while let (Some(length), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let length = length as usize;
        if kind == NLMSG_DONE || kind == NLMSG_ERROR {
            return false;
        }
        let Some(body) = bytes.get(HEADER..length) else { return false };
        bodies.push(body.to_vec());
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
    }
    true
}

fn devices(bodies: &[Vec<u8>]) -> Vec<u32> {
    let index_of = |body: &Vec<u8>| number(body, RDMA_NLDEV_ATTR_DEV_INDEX);
    bodies.iter().filter_map(index_of).collect()
}

fn listening_pids(bodies: &[Vec<u8>]) -> Vec<u32> {
    let mut pids = Vec::new();
    let lists = bodies.iter().flat_map(|body| attributes(body));
    for (_, list) in lists.filter(|(kind, _)| *kind == RDMA_NLDEV_ATTR_RES_CM_ID) {
        for (_, entry) in
            attributes(list).filter(|(kind, _)| *kind == RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY)
        {
            let mut state =
                attributes(entry).filter(|(kind, _)| *kind == RDMA_NLDEV_ATTR_RES_STATE);
            if state.any(|(_, value)| value.first() == Some(&STATE_LISTEN)) {
                pids.extend(number(entry, RDMA_NLDEV_ATTR_RES_PID));
            }
        }
    }
    pids
}

/// Walks over the attributes in `bytes`: type and value.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & TYPE_MASK;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the first attribute of this type, if it is a 32-bit number.
fn number(bytes: &[u8], kind: u16) -> Option<u32> {
    let (_, value) = attributes(bytes).find(|(found, _)| *found == kind)?;
    u32_at(value, 0)
}

/// An attribute whose value is a multiple of four bytes long.
fn attribute(kind: u16, value: &[u8; 4]) -> Vec<u8> {
    let length: u16 = 8;
    [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat()
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attribute of any length, padded.
    fn padded(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

    fn entry(state: u8, pid: u32) -> Vec<u8> {
        let inside = [
            padded(RDMA_NLDEV_ATTR_RES_STATE, &[state]),
            padded(RDMA_NLDEV_ATTR_RES_PID, &pid.to_ne_bytes()),
        ];
        padded(RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY | 0x8000, &inside.concat())
    }

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER + body.len()).unwrap();
        [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], body].concat()
    }

    #[test]
    fn only_listening_identifiers_count() {
        let list = [entry(5, 11), entry(STATE_LISTEN, 12), entry(STATE_LISTEN, 13)].concat();
        let body = [
            attribute(RDMA_NLDEV_ATTR_DEV_INDEX, &7_u32.to_ne_bytes()),
            padded(2, b"rxe0\0"),
            padded(RDMA_NLDEV_ATTR_RES_CM_ID, &list),
        ]
        .concat();
        let datagram = [message(5131, &body), message(5131, &body[..8])].concat();
        let mut bodies = Vec::new();
        assert!(take_messages(&datagram, &mut bodies));
        assert!(!take_messages(&message(NLMSG_DONE, &[0; 4]), &mut bodies));
        assert_eq!(devices(&bodies), [7, 7]);
        assert_eq!(listening_pids(&bodies), [12, 13]);
    }

    #[test]
    fn nonsense_ends_the_walk() {
        assert_eq!(attributes(&[3, 0, 0, 0, 0, 0, 0, 0]).count(), 0);
        assert_eq!(attributes(&[200, 0, 1, 0, 9, 9, 9, 9]).count(), 0);
        assert_eq!(attributes(&[8]).count(), 0);
        let mut bodies = Vec::new();
        assert!(!take_messages(&[255; 20], &mut bodies));
        assert!(bodies.is_empty());
    }

    #[test]
    fn a_kernel_without_rdma_has_no_listeners() {
        let own = std::process::id();
        assert!(listeners().is_ok_and(|pids| !pids.contains(&own)));
    }
}
