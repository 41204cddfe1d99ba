//! Where programs have posted the requests that are told of.

use std::collections::HashMap;
use std::sync::Arc;

use soft_hca_verbs::WcStatus;

use crate::entry::{Entry, ReceiveQueue, What};
use crate::place::Place;

/// Places of requests that are not done, by queue pair and `wr_id`.
#[derive(Debug, Default)]
pub(super) struct Sources {
    sends: HashMap<(u32, u64), Arc<Place>>,
    receives: HashMap<(u32, u64), Arc<Place>>,
}

impl Sources {
    /// Another entry. Where its program has called for it: the entry itself, or the request that it is about.
    pub(super) fn entry(&mut self, entry: &Entry) -> Option<Arc<Place>> {
        let own = entry.site.as_ref().and_then(|site| site.place.clone());
        match &entry.what {
            What::SendPosted(posted) => {
                self.sends.extend(own.clone().map(|place| ((posted.qp, posted.wr_id), place)));
            }
            What::ReceivePosted(posted) => {
                if let (ReceiveQueue::Qp(qp), Some(place)) = (posted.queue, own.clone()) {
                    self.receives.insert((qp, posted.wr_id), place);
                }
            }
            What::Executed(done) => return self.sends.remove(&(done.qp, done.wr_id)),
            What::Completion(done) => {
                let is_send = done.status == WcStatus::SUCCESS && !done.opcode.is_receive();
                return match is_send {
                    true => None,
                    false => self.receives.remove(&(done.qp, done.wr_id)),
                };
            }
            _ => {}
        }
        own
    }

    /// Where a send that is not done was posted.
    pub(super) fn send(&self, qp: u32, wr_id: u64) -> Option<Arc<Place>> {
        self.sends.get(&(qp, wr_id)).cloned()
    }
}
