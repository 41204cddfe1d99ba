//! Messages on their way: to ids of this fabric, and to other hosts.

use std::collections::VecDeque;
use std::net::IpAddr;

use soft_hca_roce::wire::cm::{CommId, Message, Req, SidrReq, reason, sidr_status};
use soft_hca_roce::wire::mad::MAD_BYTES;

use super::host::{Cx, Host};
use super::peer::Peer;
use super::wire::{self, Envelope};

/// A message for another host: a management datagram from queue pair 1 to queue pair 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    /// The own address that it is sent from.
    pub from: IpAddr,
    /// The other host's address.
    pub to: IpAddr,
    /// The datagram.
    pub mad: [u8; MAD_BYTES],
}

/// The kinds of messages that begin a transaction, as a part of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opens {
    Connection = 1,
    Disconnection = 2,
    Service = 3,
}

/// Messages that nobody has acted on yet, each kind in its order.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// Those for ids of this fabric, with the connection manager that has sent them.
    inbox: VecDeque<(Peer, Envelope)>,
    outbox: Vec<Outgoing>,
    /// How many had no effect.
    dropped: u64,
    /// The number that those of transactions begin with.
    transactions: Option<u32>,
}

impl Messages {
    /// Sends a message. One to an id of this fabric is received when the command, or the timer, that
    /// has sent it is done.
    pub(super) fn send(&mut self, to: Peer, envelope: Envelope) {
        match to {
            Peer::Local => self.arrive(Peer::Local, envelope),
            Peer::Remote { own, address } => {
                let mad = wire::encode(&envelope);
                self.outbox.push(Outgoing { from: own, to: address, mad });
            }
        }
    }

    /// A message has come for an id of this fabric.
    pub(super) fn arrive(&mut self, from: Peer, envelope: Envelope) {
        self.inbox.push_back((from, envelope));
    }

    /// Takes the oldest message for an id of this fabric.
    pub(super) fn take(&mut self) -> Option<(Peer, Envelope)> {
        self.inbox.pop_front()
    }

    /// Takes the messages for other hosts.
    pub(super) fn take_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outbox)
    }

    /// Counts a message that has no effect.
    pub(super) fn count_dropped(&mut self, from: IpAddr, why: &str) {
        self.dropped = self.dropped.saturating_add(1);
        tracing::debug!(%from, count = self.dropped, "a management datagram is dropped: {why}");
    }

    #[cfg(test)]
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The transaction of a message that begins one (`cm_form_tid`).
    pub(super) fn new_transaction(&mut self, host: &mut dyn Host, kind: Opens, id: CommId) -> u64 {
        let own = *self.transactions.get_or_insert_with(|| host.random24());
        u64::from(own) << 40 | (kind as u64) << 32 | u64::from(id.0)
    }

    /// Refuses a request that no id was made for, as nobody listens for it.
    pub(super) fn refuse(&mut self, cx: &Cx<'_>, peer: Peer, message: &Message) {
        match message {
            Message::Req(req) => self.refuse_req(cx, peer, req, reason::INVALID_SERVICE_ID),
            Message::SidrReq(req) => self.refuse_sidr_req(cx, peer, req, sidr_status::UNSUPPORTED),
            _ => {}
        }
    }

    /// Refuses a connection that no id was made for, in answer to the request.
    pub(super) fn refuse_req(&mut self, cx: &Cx<'_>, peer: Peer, req: &Req, reason: u16) {
        self.send(peer, Envelope::new(cx.transaction, wire::refused_req(req, reason)));
    }

    /// Refuses a datagram service that no id was made for, in answer to the request.
    pub(super) fn refuse_sidr_req(&mut self, cx: &Cx<'_>, peer: Peer, req: &SidrReq, status: u8) {
        self.send(peer, Envelope::new(cx.transaction, wire::refused_sidr_req(req, status)));
    }
}
