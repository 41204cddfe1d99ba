//! Requests that have come before whoever is to listen for them.

use std::net::SocketAddr;

use soft_hca_core::uapi::ucma::{reject, sidr};

use super::id::{Key, Space};
use super::message::{Answered, CommId, Message, Rej, Req, SidrRep, SidrReq};
use super::peer::{Peer, RemoteId};
use super::timer::{Due, LISTENER_NS};
use super::{Cm, Cx, Host};

/// A request that waits.
#[derive(Debug)]
pub(super) struct Early {
    until_ns: u64,
    transaction: u64,
    message: Message,
}

/// How many may wait: as many as there can be ids.
const MAX_EARLY: usize = 0x1_0000;
/// How many may wait if one more comes from another host, where anybody may send them.
pub(super) const MAX_EARLY_REMOTE: usize = 1024;

/// What a request asks for, if it is one.
fn asked_for(message: &Message) -> Option<(Space, SocketAddr)> {
    match message {
        Message::Req(req) => Some((req.space, req.dst)),
        Message::SidrReq(req) => Some((req.space, req.dst)),
        _ => None,
    }
}

impl Cm {
    /// Whoever listens for a request.
    fn listener_for(&self, host: &dyn Host, message: &Message) -> Option<Key> {
        let (space, dst) = asked_for(message)?;
        self.listener(host, space, dst)
    }

    /// Keeps a request that nobody listens for until somebody does or it has been long enough.
    /// The same request again changes nothing.
    pub(super) fn wait_for_listener(
        &mut self,
        cx: &mut Cx<'_>,
        remote: RemoteId,
        message: Message,
    ) {
        if self.early.contains_key(&remote) {
            return;
        }
        let most = if remote.peer.is_remote() { MAX_EARLY_REMOTE } else { MAX_EARLY };
        if self.early.len() >= most {
            return self.refuse(cx, remote.peer, &message);
        }
        let until_ns = cx.now_ns.saturating_add(LISTENER_NS);
        self.timers.insert((until_ns, Due::Early(remote)));
        let transaction = cx.transaction;
        self.early.insert(remote, Early { until_ns, transaction, message });
    }

    /// Takes a request that waits.
    pub(super) fn forget_early(&mut self, remote: RemoteId) -> Option<Early> {
        let early = self.early.remove(&remote)?;
        self.timers.remove(&(early.until_ns, Due::Early(remote)));
        Some(early)
    }

    /// Somebody has begun to listen: requests that wait for that come now.
    pub(super) fn listener_came(&mut self, cx: &mut Cx<'_>) {
        let mut found: Vec<_> = self
            .early
            .iter()
            .filter(|(_, early)| self.listener_for(cx.host, &early.message).is_some())
            .map(|(remote, early)| (early.until_ns, *remote))
            .collect();
        found.sort_unstable();
        for (_, remote) in found {
            if let Some(Early { transaction, message, .. }) = self.forget_early(remote) {
                self.received(cx, remote.peer, transaction, message);
            }
        }
    }

    /// Nobody has come to listen.
    pub(super) fn nobody_listens(&mut self, cx: &mut Cx<'_>, remote: RemoteId) {
        if let Some(Early { transaction, message, .. }) = self.forget_early(remote) {
            self.refuse(&mut cx.answering(transaction), remote.peer, &message);
        }
    }

    fn refuse(&mut self, cx: &mut Cx<'_>, peer: Peer, message: &Message) {
        match message {
            Message::Req(req) => self.refuse_req(cx, peer, req, reject::INVALID_SERVICE_ID),
            Message::SidrReq(req) => self.refuse_sidr_req(cx, peer, req, sidr::UNSUPPORTED),
            _ => {}
        }
    }

    /// Refuses a connection that no id was made for, in answer to the request.
    pub(super) fn refuse_req(&mut self, cx: &mut Cx<'_>, peer: Peer, req: &Req, reason: u32) {
        let rej = Rej {
            local_comm_id: CommId::NONE,
            remote_comm_id: req.local_comm_id,
            rejected: Answered::Req,
            reason,
            ari: Vec::new(),
            private_data: Vec::new(),
        };
        self.send(cx, peer, cx.transaction, Message::Rej(rej));
    }

    /// Refuses a datagram service that no id was made for, in answer to the request.
    pub(super) fn refuse_sidr_req(
        &mut self,
        cx: &mut Cx<'_>,
        peer: Peer,
        req: &SidrReq,
        status: i32,
    ) {
        let rep = SidrRep {
            request_id: req.request_id,
            status,
            service_id: req.space.service_id(req.dst.port()),
            qpn: 0,
            qkey: 0,
            private_data: Vec::new(),
        };
        self.send(cx, peer, cx.transaction, Message::SidrRep(rep));
    }
}
