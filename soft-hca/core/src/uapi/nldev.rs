//! Netlink's RDMA family, as far as it lists devices and describes the system: `include/uapi/rdma/rdma_netlink.h`.
//!
//! A datagram holds requests: a header of 16 bytes, then attributes of 4 bytes and a value, all
//! padded to 4. What is asked for comes in a message with attributes like them; what fails, or
//! asks for it, is acknowledged with an error number.

use crate::errno::{Errno, Result};

/// The family's number among netlink's protocols.
pub const NETLINK_RDMA: i32 = 20;

/// The subsystem of devices.
const NLDEV: u16 = 5;

mod command {
    pub(super) const GET: u16 = 1;
    pub(super) const PORT_GET: u16 = 5;
    pub(super) const SYS_GET: u16 = 6;
}

mod attribute {
    pub(super) const DEV_INDEX: u16 = 1;
    pub(super) const DEV_NAME: u16 = 2;
    pub(super) const PORT_INDEX: u16 = 3;
    pub(super) const CAP_FLAGS: u16 = 4;
    pub(super) const NODE_GUID: u16 = 6;
    pub(super) const SYS_IMAGE_GUID: u16 = 7;
    pub(super) const SUBNET_PREFIX: u16 = 8;
    pub(super) const LID: u16 = 9;
    pub(super) const SM_LID: u16 = 10;
    pub(super) const LMC: u16 = 11;
    pub(super) const PORT_STATE: u16 = 12;
    pub(super) const PORT_PHYS_STATE: u16 = 13;
    pub(super) const DEV_NODE_TYPE: u16 = 14;
    pub(super) const NDEV_INDEX: u16 = 50;
    pub(super) const NDEV_NAME: u16 = 51;
    pub(super) const SYS_NETNS_MODE: u16 = 66;
    pub(super) const DEV_PROTOCOL: u16 = 67;
    pub(super) const SYS_COPY_ON_FORK: u16 = 93;
}

const HEADER: usize = 16;

/// Attributes of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its GUID, in the machine's order of bytes.
    pub node_guid: u64,
    /// Its type, 1 for a channel adapter.
    pub node_type: u8,
    /// The protocol of its first port: `ib` or `roce`.
    pub protocol: &'static str,
    /// Its ports, the last number at the end.
    pub ports: Vec<PortAttributes>,
}

/// Attributes of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortAttributes {
    /// Its number, from 1.
    pub number: u32,
    /// `port_cap_flags`
    pub cap_flags: u64,
    /// Attributes that a subnet manager has given it; none on Ethernet.
    pub subnet: Option<Subnet>,
    /// The port's state, 4 if it is active.
    pub state: u8,
    /// The port's physical state, 5 if the link is up.
    pub phys_state: u8,
    /// Name of the network interface, empty if there is none.
    pub netdev: String,
    /// Its index.
    pub netdev_index: u32,
}

/// Attributes of an InfiniBand port in its subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Its prefix, in the machine's order of bytes.
    pub prefix: u64,
    /// The port's LID.
    pub lid: u32,
    /// The subnet manager's LID.
    pub sm_lid: u32,
    /// LMC: LID mask control.
    pub lmc: u8,
}

/// A request, taken apart.
struct Request<'a> {
    bytes: &'a [u8],
    kind: u16,
    flags: i32,
    sequence: u32,
}

impl<'a> Request<'a> {
    /// The first request in a datagram and what comes behind it.
    fn split(datagram: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let length = u32_at(datagram, 0)? as usize;
        if length < HEADER || length > datagram.len() {
            return None;
        }
        let (bytes, _) = datagram.split_at(length);
        let rest = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
        let request = Self {
            bytes,
            kind: u16_at(bytes, 4)?,
            flags: i32::from(u16_at(bytes, 6)?),
            sequence: u32_at(bytes, 8)?,
        };
        Some((request, rest))
    }

    fn is_dump(&self) -> bool {
        self.flags & libc::NLM_F_DUMP == libc::NLM_F_DUMP
    }

    /// An attribute that is a number.
    fn number(&self, wanted: u16) -> Option<u32> {
        let mut rest = &self.bytes[HEADER..];
        loop {
            let (length, kind) = (usize::from(u16_at(rest, 0)?), u16_at(rest, 2)?);
            if kind == wanted && length >= 8 {
                return u32_at(rest, 4);
            }
            rest = rest.get(length.max(4).next_multiple_of(4)..)?;
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A message that grows; its length is written at the end.
struct Message(Vec<u8>);

impl Message {
    /// `port` is the address of the socket that has asked.
    fn new(kind: u16, flags: i32, request: &Request<'_>, port: u32) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((flags as u16).to_ne_bytes());
        bytes.extend(request.sequence.to_ne_bytes());
        bytes.extend(port.to_ne_bytes());
        Self(bytes)
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.0.extend((value.len() as u16 + 4).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat())
    }

    fn finish(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}

/// The datagrams that answer a datagram of the socket with the address `port`. Without `devices`,
/// all requests about a device are refused with `EOPNOTSUPP`, as by Linux before 4.12, so that the
/// program looks for devices in sysfs.
pub fn answer(datagram: &[u8], devices: Option<&[Device]>, port: u32) -> Vec<Vec<u8>> {
    let mut answers = Vec::new();
    let mut rest = datagram;
    while let Some((request, behind)) = Request::split(rest) {
        rest = behind;
        if request.flags & libc::NLM_F_REQUEST == 0 {
            continue;
        }
        let mut error = 0;
        match found(&request, devices, port) {
            Ok(messages) => answers.extend(messages.into_iter().map(Message::finish)),
            Err(errno) => error = -errno.number(),
        }
        if error == 0 && request.is_dump() {
            let mut done = Message::new(libc::NLMSG_DONE as u16, libc::NLM_F_MULTI, &request, port);
            done.0.extend(0i32.to_ne_bytes());
            answers.push(done.finish());
        } else if error != 0 || request.flags & libc::NLM_F_ACK != 0 {
            let mut ack = Message::new(libc::NLMSG_ERROR as u16, 0, &request, port);
            ack.0.extend(error.to_ne_bytes());
            ack.0.extend(&request.bytes[..HEADER]);
            answers.push(ack.finish());
        }
    }
    answers
}

/// The messages with what is asked for: several only where a list is wanted.
fn found(request: &Request<'_>, devices: Option<&[Device]>, port: u32) -> Result<Vec<Message>> {
    if request.kind >> 10 != NLDEV {
        return Err(Errno::EINVAL);
    }
    let command = request.kind & 0x3ff;
    if command == command::SYS_GET {
        return Ok(vec![about_system(request, port)]);
    }
    let devices = devices.ok_or(Errno::EOPNOTSUPP)?;
    let device = match request.number(attribute::DEV_INDEX) {
        Some(index) => {
            let device = devices.iter().find(|device| device.index == index);
            Some(device.ok_or(Errno::ENODEV)?)
        }
        None if command == command::GET && request.is_dump() => None,
        None => return Err(Errno::EINVAL),
    };
    let wanted = device.map_or(devices, std::slice::from_ref);
    match command {
        command::GET => {
            Ok(wanted.iter().map(|device| about_device(request, device, port)).collect())
        }
        command::PORT_GET => {
            let device = device.ok_or(Errno::EINVAL)?;
            let number = request.number(attribute::PORT_INDEX);
            let is_wanted = |of: &&PortAttributes| number.is_none_or(|number| of.number == number);
            let ports = device.ports.iter().filter(is_wanted);
            let messages: Vec<Message> =
                ports.map(|of| about_port(request, device, of, port)).collect();
            if messages.is_empty() || (number.is_none() && !request.is_dump()) {
                return Err(Errno::EINVAL);
            }
            Ok(messages)
        }
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// A message that begins with the names of what it is about.
fn about(request: &Request<'_>, device: &Device, number: u32, port: u32) -> Message {
    let flags = if request.is_dump() { libc::NLM_F_MULTI } else { 0 };
    let mut message = Message::new(request.kind, flags, request, port);
    message
        .attribute(attribute::DEV_INDEX, &device.index.to_ne_bytes())
        .text(attribute::DEV_NAME, &device.name)
        .attribute(attribute::PORT_INDEX, &number.to_ne_bytes());
    message
}

/// As `nldev_sys_get_doit` of Linux 5.12: all network namespaces see the devices, and `fork` copies pages of
/// registered memory at once.
fn about_system(request: &Request<'_>, port: u32) -> Message {
    let mut message = Message::new(request.kind, 0, request, port);
    message.attribute(attribute::SYS_NETNS_MODE, &[1]).attribute(attribute::SYS_COPY_ON_FORK, &[1]);
    message
}

fn about_device(request: &Request<'_>, device: &Device, port: u32) -> Message {
    let last = device.ports.last().map_or(0, |port| port.number);
    let mut message = about(request, device, last, port);
    let guid = device.node_guid.to_ne_bytes();
    message
        .attribute(attribute::NODE_GUID, &guid)
        .attribute(attribute::SYS_IMAGE_GUID, &guid)
        .attribute(attribute::DEV_NODE_TYPE, &[device.node_type])
        .text(attribute::DEV_PROTOCOL, device.protocol);
    message
}

fn about_port(request: &Request<'_>, device: &Device, of: &PortAttributes, port: u32) -> Message {
    let mut message = about(request, device, of.number, port);
    message.attribute(attribute::CAP_FLAGS, &of.cap_flags.to_ne_bytes());
    if let Some(Subnet { prefix, lid, sm_lid, lmc }) = of.subnet {
        message
            .attribute(attribute::SUBNET_PREFIX, &prefix.to_ne_bytes())
            .attribute(attribute::LID, &lid.to_ne_bytes())
            .attribute(attribute::SM_LID, &sm_lid.to_ne_bytes())
            .attribute(attribute::LMC, &[lmc]);
    }
    message
        .attribute(attribute::PORT_STATE, &[of.state])
        .attribute(attribute::PORT_PHYS_STATE, &[of.phys_state]);
    if !of.netdev.is_empty() {
        message
            .attribute(attribute::NDEV_INDEX, &of.netdev_index.to_ne_bytes())
            .text(attribute::NDEV_NAME, &of.netdev);
    }
    message
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn devices() -> [Device; 1] {
        let port = PortAttributes {
            number: 1,
            cap_flags: 3,
            subnet: None,
            state: 4,
            phys_state: 5,
            netdev: "eth0".into(),
            netdev_index: 7,
        };
        [Device {
            index: 0,
            name: "rxe0".into(),
            node_guid: 2,
            node_type: 1,
            protocol: "roce",
            ports: vec![port],
        }]
    }

    fn request(command: u16, flags: i32, attributes: &[(u16, u32)]) -> Vec<u8> {
        let nothing = Request { bytes: &[], kind: 0, flags: 0, sequence: 99 };
        let flags = flags | libc::NLM_F_REQUEST;
        let mut message = Message::new(NLDEV << 10 | command, flags, &nothing, 0);
        for (kind, value) in attributes {
            message.attribute(*kind, &value.to_ne_bytes());
        }
        message.finish()
    }

    /// The error number in the last answer.
    fn error(answers: &[Vec<u8>]) -> i32 {
        let last = answers.last().expect("there is an answer");
        assert_eq!(u16_at(last, 4), Some(libc::NLMSG_ERROR as u16));
        assert_eq!(u32_at(last, 8), Some(99));
        u32_at(last, HEADER).expect("it has a number") as i32
    }

    fn has(answer: &[u8], text: &[u8]) -> bool {
        answer.windows(text.len()).any(|part| part == text)
    }

    #[test]
    fn devices_are_listed() {
        let answers = answer(&request(command::GET, libc::NLM_F_DUMP, &[]), Some(&devices()), 1234);
        assert_eq!(answers.len(), 2);
        let (device, _) = Request::split(&answers[0]).expect("a message");
        assert_eq!((device.sequence, u32_at(&answers[0], 12)), (99, Some(1234)));
        assert_eq!(device.number(attribute::DEV_INDEX), Some(0));
        assert_eq!(device.number(attribute::PORT_INDEX), Some(1));
        assert!(has(&answers[0], b"rxe0\0") && has(&answers[0], b"roce\0"));
        assert_eq!(u16_at(&answers[1], 4), Some(libc::NLMSG_DONE as u16));
    }

    #[test]
    fn a_port_is_described_and_acknowledged() {
        let both = [(attribute::DEV_INDEX, 0), (attribute::PORT_INDEX, 1)];
        let answers =
            answer(&request(command::PORT_GET, libc::NLM_F_ACK, &both), Some(&devices()), 1);
        assert_eq!(answers.len(), 2);
        let (port, _) = Request::split(&answers[0]).expect("a message");
        assert_eq!(port.number(attribute::NDEV_INDEX), Some(7));
        assert!(has(&answers[0], b"eth0\0"));
        assert_eq!(error(&answers), 0);
    }

    #[test]
    fn a_port_of_infiniband_has_a_subnet() {
        let requested =
            request(command::PORT_GET, 0, &[(attribute::DEV_INDEX, 0), (attribute::PORT_INDEX, 1)]);
        let mut devices = devices();
        let lid = |devices: &[Device]| {
            let answers = answer(&requested, Some(devices), 1);
            let (port, _) = Request::split(&answers[0]).expect("a message");
            [attribute::LID, attribute::SM_LID].map(|kind| port.number(kind))
        };
        assert_eq!(lid(&devices), [None; 2]);
        let subnet = Subnet { prefix: 0xfe80 << 48, lid: 8, sm_lid: 1, lmc: 2 };
        devices[0].ports[0].subnet = Some(subnet);
        assert_eq!(lid(&devices), [Some(8), Some(1)]);
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let error_of = |command, attributes: &[_]| {
            error(&answer(&request(command, 0, attributes), Some(&devices()), 1))
        };
        assert_eq!(error_of(command::GET, &[]), -libc::EINVAL);
        assert_eq!(error_of(command::GET, &[(attribute::DEV_INDEX, 1)]), -libc::ENODEV);
        let port = |port| [(attribute::DEV_INDEX, 0), (attribute::PORT_INDEX, port)];
        assert_eq!(error_of(command::PORT_GET, &port(2)), -libc::EINVAL);
        assert_eq!(error_of(9, &port(1)), -libc::EOPNOTSUPP);
        let mut other = request(command::GET, 0, &[]);
        other[4..6].copy_from_slice(&(3u16 << 10).to_ne_bytes());
        assert_eq!(error(&answer(&other, Some(&devices()), 1)), -libc::EINVAL);
    }

    /// libnl reads on after a message that is one of several.
    #[test]
    fn the_system_copies_on_fork_for_who_looks_for_devices_elsewhere_too() {
        for devices in [Some(&devices()[..]), None] {
            let [answer] = &answer(&request(command::SYS_GET, 0, &[]), devices, 1)[..] else {
                panic!("one answer")
            };
            let (system, _) = Request::split(answer).expect("a message");
            assert_eq!((system.kind, system.flags), (NLDEV << 10 | command::SYS_GET, 0));
            // An attribute of one byte, padded.
            assert!(has(answer, &[5, 0, attribute::SYS_COPY_ON_FORK as u8, 0, 1, 0, 0, 0]));
        }
        for (command, flags) in [(command::GET, libc::NLM_F_DUMP), (command::PORT_GET, 0)] {
            let answers = answer(&request(command, flags, &[(attribute::DEV_INDEX, 0)]), None, 1);
            assert_eq!((answers.len(), error(&answers)), (1, -libc::EOPNOTSUPP));
        }
    }

    #[test]
    fn every_device_and_every_port_is_listed() {
        let [mut one] = devices();
        let two = Device { index: 3, name: "rxe3".into(), ..one.clone() };
        one.protocol = "ib";
        one.ports.push(PortAttributes { number: 2, netdev: String::new(), ..one.ports[0].clone() });
        let devices = [one, two];
        let ask = |command, flags, attributes: &[_]| {
            answer(&request(command, flags, attributes), Some(&devices), 1)
        };
        let number = |bytes: &[u8], kind| Request::split(bytes).and_then(|(m, _)| m.number(kind));
        let listed = |answers: &[Vec<u8>], kind| {
            answers.iter().map_while(|bytes| number(bytes, kind)).collect::<Vec<_>>()
        };
        let all = ask(command::GET, libc::NLM_F_DUMP, &[]);
        assert_eq!(listed(&all, attribute::DEV_INDEX), [0, 3]);
        // How many ports there are
        assert_eq!(listed(&all, attribute::PORT_INDEX), [2, 1]);
        assert!(has(&all[0], b"ib\0") && has(&all[1], b"rxe3\0"));
        let index = |index| (attribute::DEV_INDEX, index);
        let ports = ask(command::PORT_GET, libc::NLM_F_DUMP, &[index(0)]);
        assert_eq!(listed(&ports, attribute::PORT_INDEX), [1, 2]);
        assert!(has(&ports[0], b"eth0\0") && !has(&ports[1], b"eth0\0"));
        let port = |device, port| {
            ask(command::PORT_GET, 0, &[index(device), (attribute::PORT_INDEX, port)])
        };
        assert_eq!(listed(&port(0, 2), attribute::PORT_INDEX), [2]);
        assert_eq!(error(&port(0, 3)), -libc::EINVAL);
        assert_eq!(error(&port(3, 2)), -libc::EINVAL);
        assert_eq!(error(&ask(command::PORT_GET, 0, &[index(0)])), -libc::EINVAL);
        assert_eq!(error(&ask(command::GET, 0, &[index(1)])), -libc::ENODEV);
    }

    #[test]
    fn several_requests_may_come_at_once() {
        let one = request(command::GET, 0, &[(attribute::DEV_INDEX, 0)]);
        assert_eq!(answer(&[one.clone(), one].concat(), Some(&devices()), 1).len(), 2);
    }

    proptest! {
        #[test]
        fn any_bytes_may_come(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            answer(&bytes, Some(&devices()), 1);
            let mut framed = request(command::PORT_GET, 0, &[]);
            framed.extend(&bytes);
            let length = framed.len() as u32;
            framed[..4].copy_from_slice(&length.to_ne_bytes());
            answer(&framed, Some(&devices()), 1);
        }
    }
}
