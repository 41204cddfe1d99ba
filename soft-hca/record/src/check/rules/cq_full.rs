//! More requests that complete to a queue than it was made for.

use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::{ReceiveQueue, What};

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "a completion queue that overflows is lost with all queue pairs that report to it \
         (IBV_EVENT_CQ_ERR); providers round its size up, each in its own way",
    cure: "make the completion queue as large as all requests that may complete to it at a time",
};

#[derive(Debug, Default)]
pub(in crate::check) struct CqFull;

impl Lookout for CqFull {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        let qp = |number: u32| scene.run.live_qp(number);
        let number = match &scene.entry.what {
            What::SendPosted(posted) => {
                let is_signaled = || {
                    let last = qp(posted.qp)?.sends.requests().next_back()?;
                    last.is_signaled.then_some(())
                };
                is_signaled().and_then(|()| qp(posted.qp)?.send_cq)
            }
            What::ReceivePosted(posted) => match posted.queue {
                ReceiveQueue::Qp(number) => qp(number).and_then(|qp| qp.recv_cq),
                ReceiveQueue::Srq(_) => None,
            },
            _ => None,
        };
        let Some((number, cq)) = number.and_then(|cq| Some((cq, scene.run.cqs.get(&cq)?))) else {
            return;
        };
        if cq.pending > cq.cqe {
            let what = format!(
                "{} requests that complete to it were posted and not polled, cqe {}",
                cq.pending, cq.cqe
            );
            let finding = scene.finds(Rule::CqFull, format!("cq {number}"), what);
            found.push(Found { needs_polls: true, ..finding });
        }
    }
}
