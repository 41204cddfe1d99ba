//! Datagrams of other hosts, for the fuzz target.

use std::net::Ipv4Addr;

use arbitrary::{Result, Unstructured};
use soft_hca_core::uapi::ucma::{Ece, Sockaddr};
use soft_hca_roce::wire::bth::{Psn, Qpn};
use soft_hca_roce::wire::cm::{
    Answered, CommId, Drep, Dreq, Message, Mra, Path, Rej, Rep, Req, Rtu, SidrRep, SidrReq,
};
use soft_hca_roce::wire::mad::MAD_BYTES;

use super::*;
use crate::ucma::id::Space;
use crate::ucma::wire::{self, Ends, Envelope};

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
        _ => {
            let message = message(world, u)?;
            wire::encode(&Envelope::new(u.arbitrary()?, message))
        }
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
    ends.sort_unstable_by_key(|(key, _)| *key);
    let ends: Vec<_> = ends.into_iter().filter_map(|(_, id)| id.connection.as_ref()).collect();
    let (mut remote_comm_id, mut local_comm_id) = (CommId(u.int_in_range(0..=3)?), CommId::NONE);
    let mut remote_qpn = Qpn::new(0x11);
    if !ends.is_empty() && !u.ratio(1, 8)? {
        let end = ends[u.choose_index(ends.len())?];
        (remote_comm_id, local_comm_id) = (end.local_id, end.remote_id);
        remote_qpn = end.qpn;
    }
    if local_comm_id == CommId::NONE {
        local_comm_id = CommId(u.int_in_range(1..=9)?);
    }
    let answered = *u.choose(&[Answered::Req, Answered::Rep, Answered::Other])?;
    let space = *u.choose(&[Space::Tcp, Space::Tcp, Space::Udp])?;
    let (src, dst) = ((NEIGHBOUR, 40_000).into(), (world.machine.own, 7471).into());
    let (qpn, local_ca_guid) = (u.int_in_range(0x11..=0x13)?, u.int_in_range(1..=2)?);
    let local_qpn = Qpn::new(qpn);
    let data = vec![u.arbitrary()?; u.int_in_range(0..=56)?];
    let ends = Ends { space, src, dst };
    let service_id = ends.service_id();
    Ok(match u.int_in_range(0..=9)? {
        0 | 1 => {
            let usual = wire::req();
            Message::Req(Req {
                local_comm_id: CommId(u.int_in_range(1..=9)?),
                service_id,
                local_ca_guid,
                local_qpn,
                responder_resources: 1,
                initiator_depth: 1,
                flow_control: true,
                starting_psn: Psn::new(1),
                retry_count: 7,
                mtu: u.int_in_range(1..=5)?,
                rnr_retry_count: 7,
                primary: Path {
                    local_gid: Sockaddr::Ip(src).gid(),
                    remote_gid: Sockaddr::Ip(dst).gid(),
                    ack_timeout: 19,
                    ..usual.primary
                },
                private_data: ends.private_data(&data).unwrap(),
                ..usual
            })
        }
        2 => Message::Mra(Mra {
            local_comm_id,
            remote_comm_id,
            answered,
            service_timeout: u.arbitrary()?,
            ..Mra::default()
        }),
        3 => Message::Rej(Rej {
            local_comm_id,
            remote_comm_id: *u.choose(&[remote_comm_id, CommId::NONE])?,
            rejected: answered,
            reason: u.int_in_range(0..=40)?,
            private_data: wire::private_data(&data).unwrap(),
            ..Rej::default()
        }),
        4 => Message::Rep(Rep {
            local_comm_id,
            remote_comm_id,
            local_ca_guid,
            local_qpn,
            starting_psn: Psn::new(1),
            responder_resources: 1,
            initiator_depth: 1,
            rnr_retry_count: 7,
            flow_control: true,
            private_data: wire::private_data(&data).unwrap(),
            ..wire::rep(Ece::default())
        }),
        5 => Message::Rtu(Rtu { local_comm_id, remote_comm_id, ..Rtu::default() }),
        6 => Message::Dreq(Dreq { local_comm_id, remote_comm_id, remote_qpn, ..Dreq::default() }),
        7 => Message::Drep(Drep { local_comm_id, remote_comm_id, ..Drep::default() }),
        8 => Message::SidrReq(SidrReq {
            request_id: local_comm_id,
            service_id,
            private_data: ends.private_data(&data).unwrap(),
            ..SidrReq::default()
        }),
        _ => Message::SidrRep(SidrRep {
            request_id: remote_comm_id,
            status: u.int_in_range(0..=2)?,
            service_id: space.service_id(7471),
            qpn: local_qpn,
            qkey: 0x0123_4567,
            private_data: wire::private_data(&data).unwrap(),
            ..SidrRep::default()
        }),
    })
}
