//! DREQs of ids that have gone. The kernel sends such a DREQ once; if it is lost, the peer learns
//! nothing. Here it is retransmitted three times within a second, and a fabric does not end before
//! it is answered, or given up after 1.5 s.

use std::collections::HashMap;

use soft_hca_roce::wire::cm::CommId;

use super::connection::Connection;
use super::messages::Messages;
use super::peer::Peer;
use super::timer::{Due, Timers};
use super::wire::Envelope;

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

/// All of them, by the communication ids of their connections.
#[derive(Debug, Default)]
pub(super) struct DreqsSent(HashMap<CommId, DreqSent>);

impl DreqsSent {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps the DREQ of an id that goes, to retransmit it.
    pub(super) fn keep(
        &mut self,
        timers: &mut Timers,
        now_ns: u64,
        connection: &Connection,
        dreq: &Envelope,
    ) {
        let Connection { peer, local_id, remote_id, .. } = *connection;
        if peer.is_remote() && self.0.len() < MAX_DREQS {
            let again_at_ns = now_ns.saturating_add(FIRST_WAIT_NS);
            let dreq = dreq.clone();
            let sent = DreqSent { peer, remote_id, dreq, again_at_ns, retries: 0 };
            self.0.insert(local_id, sent);
            timers.set(again_at_ns, Due::DreqSent(local_id));
        }
    }

    /// Retransmits a DREQ.
    pub(super) fn again(
        &mut self,
        timers: &mut Timers,
        messages: &mut Messages,
        now_ns: u64,
        local_id: CommId,
    ) {
        let Some(sent) = self.0.get_mut(&local_id) else { return };
        if sent.retries == MAX_RETRIES {
            self.0.remove(&local_id);
            return;
        }
        sent.retries += 1;
        sent.again_at_ns = now_ns.saturating_add(FIRST_WAIT_NS << sent.retries);
        timers.set(sent.again_at_ns, Due::DreqSent(local_id));
        messages.send(sent.peer, sent.dreq.clone());
    }

    /// The peer has confirmed that the connection is over.
    pub(super) fn answered(
        &mut self,
        timers: &mut Timers,
        from: Peer,
        (local_id, remote_id): (CommId, CommId),
    ) {
        if let Some(sent) = self.0.get(&local_id) {
            if (sent.peer, sent.remote_id) == (from, remote_id) {
                timers.cancel(sent.again_at_ns, Due::DreqSent(local_id));
                self.0.remove(&local_id);
            }
        }
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
