//! Datagrams of other hosts, for the fuzz target.

use std::net::Ipv4Addr;

use arbitrary::{Result, Unstructured};
use soft_hca_core::uapi::ucma::{Ece, Sockaddr};
use soft_hca_roce::wire::mad::MAD_BYTES;

use super::*;
use crate::ucma::id::Space;
use crate::ucma::message::{
    Answered, CommId, Drep, Dreq, Message, Mra, Rej, Rep, Req, Rtu, SidrRep, SidrReq,
};
use crate::ucma::wire;

/// Another host.
const NEIGHBOUR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2));

impl World {
    /// There is another host.
    pub(crate) fn meet_neighbour(&mut self) {
        self.machine.neighbour = Some(NEIGHBOUR);
    }
}

/// Where the messages have their programs' data behind the datagram's header, and how many bytes:
/// REQ, REJ, REP, SIDR_REQ, SIDR_REP.
const PRIVATE_DATA: [(usize, usize); 5] = [(176, 56), (84, 148), (36, 196), (52, 180), (96, 136)];

/// A datagram comes from another host: mostly nearly a message for a connection that there is.
pub(crate) fn datagram(
    world: &mut World,
    u: &mut Unstructured<'_>,
    sent: &mut Vec<Vec<u8>>,
) -> Result<()> {
    let mut mad: [u8; MAD_BYTES] = match u.int_in_range(0..=15)? {
        0 => u.arbitrary()?,
        _ => wire::encode(&message(world, u)?, u.arbitrary()?),
    };
    for _ in 0..u.int_in_range(0..=4)? {
        // Half of the time nothing else.
        if u.arbitrary()? {
            mad[u.choose_index(MAD_BYTES)?] = u.arbitrary()?;
        }
    }
    sent.extend(PRIVATE_DATA.map(|(at, length)| mad[24 + at..][..length].to_vec()));
    let from = *u.choose(&[NEIGHBOUR, NEIGHBOUR, NEIGHBOUR, IpAddr::from([10, 9, 0, 77])])?;
    let own = world.machine.own;
    world.cm.receive(&mut world.machine, (from, own), &mad, world.now);
    let answers = world.cm.take_messages();
    assert!(answers.len() <= 2 && answers.iter().all(|answer| answer.from == own));
    Ok(())
}

/// A message with the numbers of a connection that there is, if there is one.
fn message(world: &World, u: &mut Unstructured<'_>) -> Result<Message> {
    let mut ends: Vec<_> = world.cm.ids.iter().collect();
    ends.sort_unstable_by_key(|(key, _)| **key);
    let ends: Vec<_> = ends.into_iter().filter_map(|(_, id)| id.connection.as_ref()).collect();
    let (mut remote_comm_id, mut local_comm_id) = (CommId(u.int_in_range(0..=3)?), CommId::NONE);
    let mut remote_qpn = 0x11;
    if !ends.is_empty() && !u.ratio(1, 8)? {
        let end = ends[u.choose_index(ends.len())?];
        (remote_comm_id, local_comm_id) = (end.local_id, end.remote_id);
        remote_qpn = end.qpn;
    }
    if local_comm_id == CommId::NONE {
        local_comm_id = CommId(u.int_in_range(1..=9)?);
    }
    let about = *u.choose(&[Answered::Req, Answered::Rep, Answered::Other])?;
    let space = *u.choose(&[Space::Tcp, Space::Tcp, Space::Udp])?;
    let (src, dst) = ((NEIGHBOUR, 40_000).into(), (world.machine.own, 7471).into());
    let (qpn, ca_guid) = (u.int_in_range(0x11..=0x13)?, u.int_in_range(1..=2)?);
    let private_data = vec![u.arbitrary()?; u.int_in_range(0..=56)?];
    let path = (Sockaddr::Ip(src).gid(), Sockaddr::Ip(dst).gid());
    Ok(match u.int_in_range(0..=9)? {
        0 | 1 => Message::Req(Req {
            local_comm_id: CommId(u.int_in_range(1..=9)?),
            space,
            src,
            dst,
            local_gid: path.0,
            remote_gid: path.1,
            ca_guid,
            qpn,
            starting_psn: 1,
            responder_resources: 1,
            initiator_depth: 1,
            retry_count: 7,
            rnr_retry_count: 7,
            flow_control: 1,
            srq: false,
            path_mtu: u.int_in_range(1..=5)?,
            ack_timeout: 19,
            flow_label: 0,
            traffic_class: 0,
            ece: Ece::default(),
            private_data,
        }),
        2 => {
            let service_timeout = u.arbitrary()?;
            Message::Mra(Mra { local_comm_id, remote_comm_id, message: about, service_timeout })
        }
        3 => Message::Rej(Rej {
            local_comm_id,
            remote_comm_id: *u.choose(&[remote_comm_id, CommId::NONE])?,
            rejected: about,
            reason: u.int_in_range(0..=40)?,
            ari: Vec::new(),
            private_data,
        }),
        4 => Message::Rep(Rep {
            local_comm_id,
            remote_comm_id,
            ca_guid,
            qpn,
            starting_psn: 1,
            responder_resources: 1,
            initiator_depth: 1,
            rnr_retry_count: 7,
            flow_control: 1,
            srq: false,
            ece: Ece::default(),
            private_data,
        }),
        5 => Message::Rtu(Rtu { local_comm_id, remote_comm_id }),
        6 => Message::Dreq(Dreq { local_comm_id, remote_comm_id, remote_qpn }),
        7 => Message::Drep(Drep { local_comm_id, remote_comm_id }),
        8 => Message::SidrReq(SidrReq { request_id: local_comm_id, space, src, dst, private_data }),
        _ => Message::SidrRep(SidrRep {
            request_id: remote_comm_id,
            status: u.int_in_range(0..=2)?,
            service_id: space.service_id(7471),
            qpn,
            qkey: 0x0123_4567,
            private_data,
        }),
    })
}
