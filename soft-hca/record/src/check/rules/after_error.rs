//! Requests for a queue pair whose failure the program has seen.

use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::{ReceiveQueue, What};

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "a queue pair that has failed executes nothing any more: what is posted is flushed",
    cure: "look at each completion's status, and connect anew after a failure",
};

#[derive(Debug, Default)]
pub(in crate::check) struct AfterError;

impl Lookout for AfterError {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        let (kind, number) = match &scene.entry.what {
            What::SendPosted(posted) => ("send", posted.qp),
            What::ReceivePosted(posted) => match posted.queue {
                ReceiveQueue::Qp(qp) => ("receive", qp),
                ReceiveQueue::Srq(_) => return,
            },
            _ => return,
        };
        if scene.run.live_qp(number).is_some_and(|qp| qp.failure_is_seen) {
            let what =
                format!("a {kind} was posted after the program had polled a failed completion");
            found.push(scene.finds(Rule::AfterError, format!("qp {number}"), what));
        }
    }
}
