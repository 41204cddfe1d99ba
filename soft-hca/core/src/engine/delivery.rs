//! Datagrams that have come to a queue pair of this fabric, or a group. `rxe_recv.c`.

use std::sync::atomic::Ordering::Acquire;

use soft_hca_verbs::cause::{Cause, Lost, MemoryRole};

use crate::arena::{MAX_MEMBERS, Tally};
use crate::engine::actor::Actor;
use crate::engine::address::gid;
use crate::engine::check::CheckError;
use crate::engine::credit;
use crate::engine::deferred::Deferred;
use crate::engine::incoming::{Incoming, ScatterError};
use crate::engine::request_error::RequestError;
use crate::engine::responder::{self, ReceiveCompletion, Responder};
use crate::engine::segments::SegmentList;
use crate::engine::traced::MatchedReceive;
use crate::uapi::verbs::{QpState, qp_type};

/// Bytes that a datagram's receive has before the payload.
pub(super) const GRH: usize = 40;

/// The fate of a datagram at the queue pair that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// It has gone into this receive.
    Received(MatchedReceive),
    /// It is dropped; why, if that is known.
    Dropped(Option<Cause>),
}

/// A datagram on its way.
pub(super) struct Datagram<'d> {
    /// Header and payload; where the payload lies decides whose memory it is.
    pub proc: usize,
    pub segments: &'d SegmentList,
    pub qkey: u32,
    /// The sender's P_Key.
    pub pkey: u32,
    /// The receive's completion, name and length apart.
    pub received: ReceiveCompletion,
    /// The packet's share of the counters of the port that it comes to; nothing if the link has
    /// counted it.
    pub tally: Tally,
}

/// Delivers to all members of a group. Whether any of them has taken it.
pub(super) fn deliver_to_group(
    actor: &Actor<'_>,
    group: &[u8; 16],
    datagram: &Datagram<'_>,
    deferred: &mut Deferred,
) -> Result<bool, RequestError> {
    let mut is_taken = false;
    // To a port that has several members the packet comes once.
    let mut ports = 0u128;
    let used = (actor.arena.members_used.load(Acquire) as usize).min(MAX_MEMBERS);
    for member in &actor.arena.members[..used] {
        let qpn = member.live.load(Acquire);
        if qpn != 0 && gid(&member.gid) == *group {
            let port = actor.arena.qp(qpn).map_or(0, |qp| qp.port.load(Acquire));
            let port = 1 << port.min(u128::BITS - 1);
            let tally = if ports & port == 0 { datagram.tally } else { Tally::default() };
            ports |= port;
            match deliver(actor, qpn, &Datagram { tally, ..*datagram }, deferred) {
                Ok(Delivery::Received(_)) => is_taken = true,
                // Others may take what one member drops.
                Ok(Delivery::Dropped(_)) => {}
                // The others are not to wait for a member that does not poll or is stopped.
                Err(RequestError::CqFull(_) | RequestError::Busy) => {}
                Err(failed) => return Err(failed),
            }
        }
    }
    Ok(is_taken)
}

/// Delivers to one queue pair, if it takes the datagram. Fails only if the sender's memory
/// cannot be read, the receiver's completion queue is full, or it is to be tried again.
pub(super) fn deliver(
    actor: &Actor<'_>,
    qpn: u32,
    datagram: &Datagram<'_>,
    deferred: &mut Deferred,
) -> Result<Delivery, RequestError> {
    let lost = |why| Ok(Delivery::Dropped(Some(Cause::NotTaken { why })));
    let Some(qp) = actor.arena.qp(qpn) else { return lost(Lost::NoQueuePair { qp: qpn }) };
    let _locks = responder::lock_ahead(actor, qp).ok_or(RequestError::Busy)?;
    let Some(mut responder) = Responder::lock(actor, qp, qpn, qp_type::UD) else {
        let is_other = qp.qp_type.load(Acquire) != qp_type::UD;
        let state = QpState(qp.state.load(Acquire));
        return lost(match is_other {
            true => Lost::OtherType { qp: qpn },
            false => Lost::InState { qp: qpn, state },
        });
    };
    let count = |sends| qp.received.add(&Tally { sends, ..datagram.tally });
    let its_key = qp.qkey.load(Acquire);
    if its_key != datagram.qkey {
        count(0);
        return lost(Lost::QKey { qp: qpn, sent: datagram.qkey, its: its_key });
    }
    if !qp.takes(datagram.pkey) {
        count(0);
        let (sent, its) = (datagram.pkey as u16, qp.pkey.load(Acquire) as u16);
        return lost(Lost::OtherPartition { qp: qpn, sent, its });
    }
    let _credit = credit::reserve_one(actor, responder.qp.recv_cq.load(Acquire))?;
    let Some(mut incoming) = Incoming::begin(&responder, actor, deferred) else {
        count(0);
        return lost(Lost::NoReceive { qp: qpn });
    };
    let part = datagram.segments.of_process(datagram.proc);
    match incoming.scatter(&responder, actor, part) {
        Ok(()) => {
            count(1);
            let receive = MatchedReceive { qpn, wr_id: incoming.wr_id() };
            incoming.finish(&mut responder, actor, datagram.received, deferred);
            Ok(Delivery::Received(receive))
        }
        Err(ScatterError::Receive(error)) => {
            count(0);
            let cause = error.cause(GRH as u64);
            incoming.fail(&mut responder, actor, (&error, cause), deferred);
            Ok(Delivery::Dropped(Some(cause)))
        }
        Err(ScatterError::Source) => {
            incoming.give_back(&responder, actor, deferred);
            Err(CheckError::unmapped(MemoryRole::Local).into())
        }
        Err(ScatterError::Unreachable) => {
            incoming.give_back(&responder, actor, deferred);
            Ok(Delivery::Dropped(None))
        }
    }
}
