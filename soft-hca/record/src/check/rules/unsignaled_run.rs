//! As many sends as the queue holds, none of which has a completion.

use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::What;
use crate::model::QueuePair;

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "a send's place in the queue is free again when a signaled send behind it has completed and was \
         polled; without one the queue is full for ever, and ibv_post_send gives ENOMEM",
    cure: "set IBV_SEND_SIGNALED at least once in max_send_wr sends, and poll its completion",
};

#[derive(Debug, Default)]
pub(in crate::check) struct UnsignaledRun;

/// Unsignaled sends before the last one, if they fill the queue.
pub(super) fn unsignaled(qp: &QueuePair) -> Option<u64> {
    let before = qp.sends.requests().rev().skip(1);
    let count = before.take_while(|send| !send.is_signaled).count() as u64;
    (count >= qp.requested.send_wr).then_some(count)
}

impl Lookout for UnsignaledRun {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        let What::SendPosted(posted) = &scene.entry.what else { return };
        let Some(qp) = scene.run.live_qp(posted.qp) else { return };
        let most = qp.requested.send_wr;
        if qp.sends.requests().len() as u64 <= most {
            return;
        }
        if let Some(count) = unsignaled(qp) {
            let what = format!("{count} unsignaled sends in a row, max_send_wr {most}");
            let finding = scene.finds(Rule::UnsignaledRun, format!("qp {}", posted.qp), what);
            found.push(Found { needs_polls: true, ..finding });
        }
    }
}
