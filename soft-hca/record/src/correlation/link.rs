//! Messages over the link. Which receive such a message has met its sender cannot tell, but on a connection messages
//! arrive in the order in which they were sent.

use std::collections::{HashMap, VecDeque};

use soft_hca_verbs::WcStatus;

use super::Correlation;
use crate::entry::{Executed, What};
use crate::model::Run;

/// Transfers whose receive is to be found yet, in their order, by the queue pair that they have gone to.
pub(super) struct Sent(HashMap<u32, VecDeque<usize>>);

impl Sent {
    /// Of a run.
    pub(super) fn new(correlation: &Correlation<'_>, run: &Run) -> Self {
        let mut sent: HashMap<u32, VecDeque<usize>> = HashMap::new();
        for (number, transfer) in correlation.transfers.iter().enumerate() {
            let executed = transfer.executed.map(|at| &correlation.entries[at].what);
            let Some(What::Executed(executed)) = executed else { continue };
            if let Some(to) = run.peer(executed.qp).filter(|_| has_taken_a_receive(executed)) {
                sent.entry(to).or_default().push_back(number);
            }
        }
        Self(sent)
    }

    /// The transfer whose message a receive has taken that has completed so.
    pub(super) fn of(&mut self, correlation: &Correlation<'_>, received: usize) -> Option<usize> {
        let What::Completion(done) = &correlation.entries[received].what else { return None };
        let sent = self.0.get_mut(&done.qp).filter(|_| done.status == WcStatus::SUCCESS)?;
        let next = correlation.transfers[*sent.front()?].posted;
        if next.is_some_and(|posted| posted > received) { None } else { sent.pop_front() }
    }
}

/// Whether a work request has gone into a receive of the other host.
fn has_taken_a_receive(executed: &Executed) -> bool {
    let takes = executed.opcode.takes_receive();
    takes
        && executed.status == WcStatus::SUCCESS
        && executed.reason.is_none()
        && executed.receive.is_none()
}
