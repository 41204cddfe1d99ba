//! Requests that have come before anybody listens for them.

use soft_hca_roce::wire::cm::{Message, Req, SidrReq, reason, sidr_status};

use super::peer::{Peer, RemoteId};
use super::timer::{Due, LISTENER_NS};
use super::wire::{self, Envelope};
use super::{Cm, Cx};

/// A request that waits.
#[derive(Debug)]
pub(super) struct PendingRequest {
    until_ns: u64,
    envelope: Envelope,
}

/// How many may wait: as many as there can be ids.
const MAX_PENDING: usize = 0x1_0000;
/// How many may wait if one more comes from another host, where anybody may send them.
pub(super) const MAX_PENDING_REMOTE: usize = 1024;

impl Cm {
    /// Keeps a request without a listener until there is one, or for [`LISTENER_NS`]. A copy of the
    /// request changes nothing.
    pub(super) fn wait_for_listener(
        &mut self,
        cx: &mut Cx<'_>,
        remote: RemoteId,
        envelope: &Envelope,
    ) {
        if self.pending.contains_key(&remote) {
            return;
        }
        let most = if remote.peer.is_remote() { MAX_PENDING_REMOTE } else { MAX_PENDING };
        if self.pending.len() >= most {
            return self.refuse(cx, remote.peer, &envelope.message);
        }
        let until_ns = cx.now_ns.saturating_add(LISTENER_NS);
        self.timers.insert((until_ns, Due::PendingRequest(remote)));
        self.pending.insert(remote, PendingRequest { until_ns, envelope: envelope.clone() });
    }

    /// Takes a request that waits.
    pub(super) fn take_pending(&mut self, remote: RemoteId) -> Option<PendingRequest> {
        let pending = self.pending.remove(&remote)?;
        self.timers.remove(&(pending.until_ns, Due::PendingRequest(remote)));
        Some(pending)
    }

    /// An id listens now: requests that wait for it are received.
    pub(super) fn listener_came(&mut self, cx: &mut Cx<'_>) {
        let mut found: Vec<_> = self
            .pending
            .iter()
            .filter(|(_, pending)| {
                pending.envelope.ends.is_some_and(|ends| self.listener(cx.host, ends).is_some())
            })
            .map(|(remote, pending)| (pending.until_ns, *remote))
            .collect();
        found.sort_unstable();
        for (_, remote) in found {
            if let Some(PendingRequest { envelope, .. }) = self.take_pending(remote) {
                self.received(cx, remote.peer, envelope);
            }
        }
    }

    /// There is still no listener: refuses the request.
    pub(super) fn nobody_listens(&mut self, cx: &mut Cx<'_>, remote: RemoteId) {
        if let Some(PendingRequest { envelope, .. }) = self.take_pending(remote) {
            let cx = &mut cx.answering(envelope.transaction);
            self.refuse(cx, remote.peer, &envelope.message);
        }
    }

    fn refuse(&mut self, cx: &mut Cx<'_>, peer: Peer, message: &Message) {
        match message {
            Message::Req(req) => self.refuse_req(cx, peer, req, reason::INVALID_SERVICE_ID),
            Message::SidrReq(req) => self.refuse_sidr_req(cx, peer, req, sidr_status::UNSUPPORTED),
            _ => {}
        }
    }

    /// Refuses a connection that no id was made for, in answer to the request.
    pub(super) fn refuse_req(&mut self, cx: &mut Cx<'_>, peer: Peer, req: &Req, reason: u16) {
        self.send(cx, peer, Envelope::new(cx.transaction, wire::refused_req(req, reason)));
    }

    /// Refuses a datagram service that no id was made for, in answer to the request.
    pub(super) fn refuse_sidr_req(
        &mut self,
        cx: &mut Cx<'_>,
        peer: Peer,
        req: &SidrReq,
        status: u8,
    ) {
        self.send(cx, peer, Envelope::new(cx.transaction, wire::refused_sidr_req(req, status)));
    }
}
