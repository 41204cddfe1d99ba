//! Unreliable datagrams: addresses, headers, groups. `rxe_net.c`, `rxe_recv.c`.
//!
//! A datagram that nobody takes is lost, and its sender does not learn of it: no such queue pair,
//! another key, no receive, or one that is too small. One that is longer than the port's MTU is not
//! sent, and fails as on adapters: Soft-RoCE reports success (IBTA 10.7.2.2, C10-93.1.1). A group's
//! datagram goes to every member whose key is right, the sender among them.

use std::net::IpAddr;
use std::sync::atomic::Ordering::{Acquire, Release};

use arrayvec::ArrayVec;
use soft_hca_roce::wire::ip::{self, Addresses, IpHeader};
use soft_hca_verbs::cause::{Cause, Lost, Malformed, MemoryRole};

use crate::arena::{Ah, Tally};
use crate::engine::actor::Actor;
use crate::engine::address::{self, gid};
use crate::engine::check::CheckError;
use crate::engine::deferred::Deferred;
use crate::engine::delivery::{Datagram, Delivery, GRH, deliver, deliver_to_group};
use crate::engine::env::RemoteDatagram;
use crate::engine::proc::LINK;
use crate::engine::process_memory;
use crate::engine::request::{PayloadLocation, Requester, SendCompletion, too_long};
use crate::engine::request_error::RequestError;
use crate::engine::responder::ReceiveCompletion;
use crate::engine::route::Route;
use crate::engine::segments::{Memory, Region, SegmentList};
use crate::engine::traffic::Packets;
use crate::engine::turn::{Bytes, Turn};
use crate::uapi::rxe::SendWqe;
use crate::uapi::verbs::{Mtu, SET_QKEY, network_type, opcode, send_flag};

/// The header behind a GRH, as it says on InfiniBand (IBTA 8.3).
const IB_NEXT_HEADER: u8 = 0x1b;

/// Bytes that RoCE v2 has around the payload, beside IP and UDP: BTH, DETH, ICRC.
const ROCE_BYTES: u32 = 12 + 8 + 4;

/// How many datagrams overtake one, at most.
pub(super) const MAX_OVERTAKING: usize = 3;

/// The hop limit of what is sent to a group; what is for one host has the system's.
fn group_hop_limit(ah: &Ah) -> Option<u8> {
    ip::is_multicast(&gid(&ah.dgid)).then(|| ah.hop_limit.load(Acquire) as u8)
}

/// The bytes before the payload: the IP header that the datagram would have on a network, or on
/// InfiniBand the GRH. rxe leaves an IPv4 header's checksum 0 on the way to oneself; here it is
/// always right.
fn header(ah: &Ah, own_ipv4: [u8; 4], length: u32, has_imm: bool) -> [u8; GRH] {
    let (sgid, dgid) = (gid(&ah.sgid), gid(&ah.dgid));
    let addresses = match (ip::address(&sgid), ip::address(&dgid)) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 { source, destination },
        (IpAddr::V6(_), IpAddr::V4(destination)) => {
            Addresses::V4 { source: own_ipv4.into(), destination }
        }
        (_, IpAddr::V6(destination)) => Addresses::V6 { source: sgid.into(), destination },
    };
    let packet = length.next_multiple_of(4) + ROCE_BYTES + if has_imm { 4 } else { 0 };
    let usual = IpHeader::new(addresses, packet as usize);
    let header = IpHeader {
        traffic_class: ah.traffic_class.load(Acquire) as u8,
        flow_label: ah.flow_label.load(Acquire),
        hop_limit: group_hop_limit(ah).unwrap_or(usual.hop_limit),
        ..usual
    };
    let mut grh = header.grh();
    if ah.slid.load(Acquire) != 0 {
        // On InfiniBand there is no UDP between it and the BTH.
        grh[4..6].copy_from_slice(&(packet as u16).to_be_bytes());
        grh[6] = IB_NEXT_HEADER;
    }
    grh
}

/// A datagram whose memory and address were checked.
struct Outgoing<'a, 'p> {
    wqe: &'p SendWqe<'a>,
    ah: &'a Ah,
    route: Option<Route>,
    location: PayloadLocation,
    payload: &'p SegmentList,
    length: u32,
}

/// A datagram that was sent, for its completion.
struct Sent {
    done: SendCompletion,
    delivery: Delivery,
    tally: Tally,
}

/// Executes sends of an unreliable datagram queue pair from the head on; gives how many.
pub(super) fn execute<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    head: &SendWqe<'a>,
    turn: Turn,
    deferred: &mut Deferred,
) -> Result<u32, RequestError> {
    let _credit = requester.reserve(actor, head)?;
    let mut payload = SegmentList::new();
    let outgoing = Outgoing::of(actor, requester, head, &mut payload)?;
    if turn.bytes == Bytes::Overtaken && outgoing.stays() {
        return overtaken(actor, requester, &outgoing, turn.limit, deferred);
    }
    let sent = outgoing.send(actor, requester, turn.bytes == Bytes::Lost, deferred)?;
    complete(actor, requester, &sent, deferred);
    Ok(1)
}

/// Sends some datagrams behind the one at the head, and then that.
#[cold]
fn overtaken<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    head: &Outgoing<'a, '_>,
    limit: u32,
    deferred: &mut Deferred,
) -> Result<u32, RequestError> {
    let mut send =
        |outgoing: &Outgoing<'a, '_>, is_lost| outgoing.send(actor, requester, is_lost, deferred);
    let mut ahead = ArrayVec::<_, MAX_OVERTAKING>::new();
    for number in 1..limit.min(1 + MAX_OVERTAKING as u32) {
        let wqe = requester.wqe(requester.ring.advance(requester.head(), number));
        // One that cannot be sent now is, or fails, when it is at the head.
        let Ok(credit) = requester.reserve(actor, &wqe) else { break };
        let mut payload = SegmentList::new();
        let outgoing = Outgoing::of(actor, requester, &wqe, &mut payload).ok();
        let outgoing = outgoing.filter(Outgoing::stays);
        let sent = outgoing.map(|outgoing| send(&outgoing, false));
        let Some(Ok(sent)) = sent else { break };
        ahead.push((sent, credit));
    }
    let sent = match send(head, false) {
        // Those that have overtaken it are not sent again: it is lost.
        Err(RequestError::Busy | RequestError::CqFull(_)) if !ahead.is_empty() => send(head, true)?,
        sent => sent?,
    };
    complete(actor, requester, &sent, deferred);
    let count = 1 + ahead.len() as u32;
    for (sent, _credit) in ahead {
        // The queue has another head now.
        let requester = Requester::new(requester.qp, requester.qpn, requester.ring);
        complete(actor, &requester, &sent, deferred);
    }
    Ok(count)
}

/// Completes the send at the head.
#[inline]
fn complete(actor: &Actor<'_>, requester: &Requester<'_>, sent: &Sent, deferred: &mut Deferred) {
    requester.count_datagram(&sent.tally);
    let (taken, dropped) = match &sent.delivery {
        Delivery::Received(receive) => (Some(*receive), None),
        Delivery::Dropped(cause) => (None, cause.as_ref()),
    };
    requester.complete(actor, [(sent.done, taken)], dropped, deferred);
}

impl<'a, 'p> Outgoing<'a, 'p> {
    /// Checks one, whose payload's places go into a list that was empty.
    #[inline]
    fn of(
        actor: &Actor<'a>,
        requester: &Requester<'a>,
        wqe: &'p SendWqe<'a>,
        payload: &'p mut SegmentList,
    ) -> Result<Self, RequestError> {
        if !matches!(wqe.opcode, opcode::SEND | opcode::SEND_WITH_IMM) {
            return Err(CheckError::malformed(Malformed::Opcode).into());
        }
        let (location, length) = requester.payload(actor, wqe, payload)?;
        let ah = address::find(actor.arena, &requester.owner, wqe);
        let ah = ah.ok_or_else(|| CheckError::malformed(Malformed::AddressHandle))?;
        let limit = Mtu(ah.mtu.load(Acquire)).bytes();
        if length > limit {
            return Err(too_long(length.into(), limit.into()).into());
        }
        Ok(Self { wqe, ah, route: Route::load(&ah.route), location, payload, length })
    }

    /// Whether it goes to queue pairs of this fabric, and to no others.
    fn stays(&self) -> bool {
        self.route == Some(Route::Local)
    }

    /// Sends it, or has it lost. The outcome is large, and made where it is used.
    #[inline(always)]
    fn send(
        &self,
        actor: &Actor<'a>,
        requester: &Requester<'a>,
        is_lost: bool,
        deferred: &mut Deferred,
    ) -> Result<Sent, RequestError> {
        let Self { wqe, ah, route, location, payload, length } = *self;
        let target = wqe.datagram();
        let mut delivery = Delivery::Dropped(None);
        let dgid = gid(&ah.dgid);
        let is_group = ip::is_multicast(&dgid);
        let goes_away = matches!(route, Some(Route::Remote | Route::MulticastLoopback));
        let comes_back = route == Some(Route::MulticastLoopback) && group_hop_limit(ah) != Some(0);
        let has_reached_members = requester.qp.sq_group_reached.load(Acquire) != 0 || comes_back;
        let (mut tally, _) = Packets::by(ah).tally(wqe.opcode, length);
        if is_group {
            tally.multicast = tally.packets;
        }
        let stays = self.stays() || is_group && goes_away && !has_reached_members;
        if stays {
            let own_ipv4 = actor.arena.ipv4.load(Acquire).to_ne_bytes();
            let grh = header(ah, own_ipv4, length, wqe.opcode == opcode::SEND_WITH_IMM);
            let mut copy = Vec::new();
            let mut segments = SegmentList::new();
            segments.push(process_memory::ours(&grh), Region::NONE);
            fetch(actor, requester, location, payload, &mut copy, &mut segments)?;
            let is_own_key = target.qkey & SET_QKEY != 0;
            let qkey = if is_own_key { requester.qp.qkey.load(Acquire) } else { target.qkey };
            let slid = ah.slid.load(Acquire) as u16;
            let received = ReceiveCompletion {
                opcode: wqe.opcode,
                flags: wqe.flags,
                imm: wqe.imm,
                src_qp: requester.qpn,
                slid,
                dlid_path_bits: ah.dlid_path_bits.load(Acquire) as u8,
                network_type: if slid != 0 {
                    0
                } else if ip::address(&dgid).is_ipv4() {
                    network_type::IPV4
                } else {
                    network_type::IPV6
                },
                ..ReceiveCompletion::default()
            };
            let pkey = requester.qp.pkey.load(Acquire);
            let datagram =
                Datagram { proc: actor.me, segments: &segments, qkey, pkey, received, tally };
            if is_lost {
                delivery = Delivery::Dropped(Some(Cause::NotTaken { why: Lost::OnPurpose }));
            } else if is_group {
                deliver_to_group(actor, &dgid, &datagram, deferred)?;
            } else {
                delivery = deliver(actor, target.qpn, &datagram, deferred)?;
            }
        }
        if !stays && !goes_away {
            delivery = Delivery::Dropped(Some(Cause::NotTaken { why: Lost::NoPath }));
        }
        if goes_away {
            // The link's thread, or its next attempt, is not to deliver it once more.
            requester.qp.sq_group_reached.store(is_group.into(), Release);
            send_away(actor, requester, wqe, ah, (location, payload), deferred)?;
            requester.qp.sq_group_reached.store(0, Release);
        }
        let tally = match (stays, goes_away) {
            (true, false) => tally,
            (_, true) => Tally { sends: 1, ..Tally::default() },
            // It leads nowhere.
            (false, false) => Tally::default(),
        };
        Ok(Sent { done: SendCompletion::of(wqe, length), delivery, tally })
    }
}

/// Has the link send a datagram to another host; [`RequestError::LeftToLink`] if only the
/// link's thread can, which then does.
fn send_away(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    wqe: &SendWqe<'_>,
    ah: &Ah,
    (location, payload): (PayloadLocation, &SegmentList),
    deferred: &mut Deferred,
) -> Result<(), RequestError> {
    if actor.me != LINK {
        deferred.link_doorbells.push(requester.qpn);
        return Err(RequestError::LeftToLink);
    }
    let target = wqe.datagram();
    let mut bytes = vec![0; payload.bytes() as usize];
    let ours = [process_memory::ours_mut(&mut bytes)];
    let from = payload.of_process(requester.proc_of(location, actor.me));
    let copied = actor.copy(from, Memory::unregistered(actor.me, &ours));
    copied.map_err(|_| CheckError::unmapped(MemoryRole::Local))?;
    let is_own_key = target.qkey & SET_QKEY != 0;
    let sent = actor.env.send_datagram(&RemoteDatagram {
        sgid: gid(&ah.sgid),
        dgid: gid(&ah.dgid),
        traffic_class: ah.traffic_class.load(Acquire) as u8,
        hop_limit: group_hop_limit(ah),
        dest_qpn: target.qpn,
        qkey: if is_own_key { requester.qp.qkey.load(Acquire) } else { target.qkey },
        source_qpn: requester.qpn,
        psn: requester.qp.sq_psn.load(Acquire),
        immediate: (wqe.opcode == opcode::SEND_WITH_IMM).then(|| wqe.imm.to_ne_bytes()),
        solicited: wqe.flags & send_flag::SOLICITED != 0,
        payload: &bytes,
    });
    if sent { Ok(()) } else { Err(RequestError::Busy) }
}

/// Adds the payload to `segments`, in our own memory, as the header is: in the daemon, it has
/// to be fetched into `copy`.
fn fetch(
    actor: &Actor<'_>,
    requester: &Requester<'_>,
    location: PayloadLocation,
    payload: &SegmentList,
    copy: &mut Vec<u8>,
    segments: &mut SegmentList,
) -> Result<(), RequestError> {
    let proc = requester.proc_of(location, actor.me);
    if proc == actor.me || payload.bytes() == 0 {
        payload.parts().for_each(|(segment, region)| segments.push(segment, region));
        return Ok(());
    }
    copy.resize(payload.bytes() as usize, 0);
    let ours = [process_memory::ours_mut(copy)];
    let to = Memory::unregistered(actor.me, &ours);
    let copied = actor.copy(payload.of_process(proc), to);
    copied.map_err(|_| CheckError::unmapped(MemoryRole::Local))?;
    segments.push(ours[0], Region::NONE);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU8;
    use std::sync::atomic::Ordering::Release;

    use super::*;
    use crate::arena::Mapping;

    fn set(to: &[AtomicU8; 16], gid: [u8; 16]) {
        to.iter().zip(gid).for_each(|(to, byte)| to.store(byte, Release));
    }

    fn mapped(ip: [u8; 4]) -> [u8; 16] {
        let mut gid = [0; 16];
        gid[10..12].fill(0xff);
        gid[12..].copy_from_slice(&ip);
        gid
    }

    #[test]
    fn an_ipv4_header_is_in_the_second_half() {
        let arena = Mapping::create().unwrap();
        let ah = &arena.ahs[0];
        set(&ah.sgid, mapped([10, 9, 0, 1]));
        set(&ah.dgid, mapped([10, 9, 0, 2]));
        ah.traffic_class.store(0x20, Release);
        let grh = header(ah, [1, 2, 3, 4], 16, false);
        assert_eq!(grh[..20], [0; 20]);
        assert_eq!(grh[20..30], [0x45, 0x20, 0x00, 0x44, 0, 0, 0x40, 0, 64, 17]);
        assert_eq!(grh[32..], [10, 9, 0, 1, 10, 9, 0, 2]);
        // With 32 bytes, as measured; the immediate has four more.
        assert_eq!(header(ah, [0; 4], 32, false)[22..24], [0x00, 0x54]);
        assert_eq!(header(ah, [0; 4], 29, true)[22..24], [0x00, 0x58]);
        ah.hop_limit.store(7, Release);
        assert_eq!(header(ah, [0; 4], 16, false)[28], 64);
        set(&ah.dgid, mapped([239, 1, 1, 1]));
        assert_eq!(header(ah, [0; 4], 16, false)[28], 7);
    }

    #[test]
    fn an_ipv6_header_fills_all() {
        let arena = Mapping::create().unwrap();
        let ah = &arena.ahs[0];
        let gids = [[0xfe; 16], [0xfd; 16]];
        set(&ah.sgid, gids[0]);
        set(&ah.dgid, gids[1]);
        ah.flow_label.store(0x12345, Release);
        let grh = header(ah, [0; 4], 16, false);
        assert_eq!(grh[..8], [0x60, 0x01, 0x23, 0x45, 0, 48, 17, 64]);
        assert_eq!((&grh[8..24], &grh[24..]), (&gids[0][..], &gids[1][..]));
    }
}
