//! Disconnections of ids that have gone. The kernel sends such a DREQ once; if it is lost, the
//! peer learns nothing. Here it is repeated for a moment, and a fabric ends after that.

use soft_hca_roce::wire::cm::CommId;

use super::connect::Connection;
use super::id::Key;
use super::peer::Peer;
use super::timer::Due;
use super::wire::Envelope;
use super::{Cm, Cx};

/// A DREQ that nobody has answered.
#[derive(Debug)]
pub(super) struct Leave {
    peer: Peer,
    remote_id: CommId,
    dreq: Envelope,
    again_at_ns: u64,
    retries: u32,
}

/// After which it is sent again for the first time; then after twice as long each time.
const AGAIN_NS: u64 = 100_000_000;
/// How often it is sent again.
const MAX_AGAIN: u32 = 3;
/// How many are remembered.
const MAX_LEAVES: usize = 0x1_0000;

impl Cm {
    /// Whether there are disconnections that a fabric waits for before it ends: not much more
    /// than a second.
    pub(crate) fn is_leaving(&self) -> bool {
        !self.leaves.is_empty()
    }

    /// An id goes whose DREQ has just been sent, or is about to be.
    pub(super) fn leave(&mut self, cx: &Cx<'_>, key: Key, dreq: &Envelope) {
        let Ok(connection) = self.connection(key) else { return };
        let Connection { peer, local_id, remote_id, .. } = *connection;
        if peer.is_remote() && self.leaves.len() < MAX_LEAVES {
            let again_at_ns = cx.now_ns.saturating_add(AGAIN_NS);
            let dreq = dreq.clone();
            let leave = Leave { peer, remote_id, dreq, again_at_ns, retries: 0 };
            self.leaves.insert(local_id, leave);
            self.timers.insert((again_at_ns, Due::Leave(local_id)));
        }
    }

    pub(super) fn leave_again(&mut self, cx: &mut Cx<'_>, local_id: CommId) {
        let Some(leave) = self.leaves.get_mut(&local_id) else { return };
        if leave.retries == MAX_AGAIN {
            self.leaves.remove(&local_id);
            return;
        }
        leave.retries += 1;
        leave.again_at_ns = cx.now_ns.saturating_add(AGAIN_NS << leave.retries);
        let (peer, dreq) = (leave.peer, leave.dreq.clone());
        self.timers.insert((leave.again_at_ns, Due::Leave(local_id)));
        self.send(cx, peer, dreq);
    }

    /// The peer has said that the connection is over.
    pub(super) fn has_left(&mut self, from: Peer, local_id: CommId, remote_id: CommId) {
        if let Some(leave) = self.leaves.get(&local_id) {
            if (leave.peer, leave.remote_id) == (from, remote_id) {
                self.timers.remove(&(leave.again_at_ns, Due::Leave(local_id)));
                self.leaves.remove(&local_id);
            }
        }
    }
}
