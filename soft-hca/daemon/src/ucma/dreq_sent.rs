//! DREQs of ids that have gone. The kernel sends such a DREQ once; if it is lost, the peer learns
//! nothing. Here it is retransmitted three times within a second, and a fabric does not end before
//! it is answered, or given up after 1.5 s.

use soft_hca_roce::wire::cm::CommId;

use super::connection::Connection;
use super::id::Key;
use super::peer::Peer;
use super::timer::Due;
use super::wire::Envelope;
use super::{Cm, Cx};

/// A DREQ that nobody has answered.
#[derive(Debug)]
pub(super) struct DreqSent {
    peer: Peer,
    remote_id: CommId,
    dreq: Envelope,
    again_at_ns: u64,
    retries: u32,
}

/// The time before the first retransmission. It doubles with each.
const FIRST_WAIT_NS: u64 = 100_000_000;
/// How many times it is retransmitted.
const MAX_RETRIES: u32 = 3;
/// How many are kept.
const MAX_DREQS: usize = 0x1_0000;

impl Cm {
    /// Whether a fabric that is to end waits for DREPs: 1.5 s at most.
    pub(crate) fn awaits_drep(&self) -> bool {
        !self.dreqs_sent.is_empty()
    }

    /// Keeps the DREQ of an id that goes, to retransmit it.
    pub(super) fn keep_dreq(&mut self, cx: &Cx<'_>, key: Key, dreq: &Envelope) {
        let Ok(connection) = self.connection(key) else { return };
        let Connection { peer, local_id, remote_id, .. } = *connection;
        if peer.is_remote() && self.dreqs_sent.len() < MAX_DREQS {
            let again_at_ns = cx.now_ns.saturating_add(FIRST_WAIT_NS);
            let dreq = dreq.clone();
            let sent = DreqSent { peer, remote_id, dreq, again_at_ns, retries: 0 };
            self.dreqs_sent.insert(local_id, sent);
            self.timers.insert((again_at_ns, Due::DreqSent(local_id)));
        }
    }

    /// Retransmits a DREQ.
    pub(super) fn dreq_again(&mut self, cx: &mut Cx<'_>, local_id: CommId) {
        let Some(sent) = self.dreqs_sent.get_mut(&local_id) else { return };
        if sent.retries == MAX_RETRIES {
            self.dreqs_sent.remove(&local_id);
            return;
        }
        sent.retries += 1;
        sent.again_at_ns = cx.now_ns.saturating_add(FIRST_WAIT_NS << sent.retries);
        let (peer, dreq) = (sent.peer, sent.dreq.clone());
        self.timers.insert((sent.again_at_ns, Due::DreqSent(local_id)));
        self.send(cx, peer, dreq);
    }

    /// The peer has confirmed that the connection is over.
    pub(super) fn drep_came(&mut self, from: Peer, local_id: CommId, remote_id: CommId) {
        if let Some(sent) = self.dreqs_sent.get(&local_id) {
            if (sent.peer, sent.remote_id) == (from, remote_id) {
                self.timers.remove(&(sent.again_at_ns, Due::DreqSent(local_id)));
                self.dreqs_sent.remove(&local_id);
            }
        }
    }
}
