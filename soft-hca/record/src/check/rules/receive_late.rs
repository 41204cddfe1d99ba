//! A send that meets no posted receive, or might have met none.

use soft_hca_verbs::Cause;

use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::What;
use crate::model::QueuePair;

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "a send that meets no receive is answered by a NAK (receiver not ready) and sent again later; with \
         the retries that another program or adapter has it fails with IBV_WC_RNR_RETRY_EXC_ERR",
    cure: "post receives before the peer may send, and agree on how many messages may be on their way",
};

#[derive(Debug, Default)]
pub(in crate::check) struct ReceiveLate;

impl Lookout for ReceiveLate {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        match &scene.entry.what {
            What::Stalled { qp, reason: Cause::ReceiverNotReady { .. }, .. } => {
                let what = "a send met no posted receive, and was tried again".into();
                found.push(scene.finds(Rule::ReceiveLate, format!("qp {qp}"), what));
            }
            What::SendPosted(posted) if posted.opcode.takes_receive() && !scene.run.is_partial => {
                found.extend(first_message(scene, posted.qp));
            }
            _ => {}
        }
    }
}

/// A queue pair sends its first message, which answers none of its peer's, and the peer's first receive was posted when
/// it might have come already.
fn first_message(scene: Scene<'_>, number: u32) -> Option<Found> {
    let has_own = |qp: &&QueuePair| qp.srq.is_none();
    let own = scene.run.live_qp(number).filter(has_own)?;
    if own.sends.messages > 1 || own.messages > 0 {
        return None;
    }
    let peer = own.peer?;
    let pair = scene.run.live_qp(peer).filter(|pair| pair.peer == Some(number) && has_own(pair))?;
    let (t, source) = pair.receives.first()?;
    // Any message since then may have told that the receive is there.
    let last = scene.run.processes.get(&own.process).and_then(|process| process.last_message);
    if last.is_some_and(|last| last >= *t) {
        return None;
    }
    pair.opened.filter(|opened| opened < t)?;
    let what = "the first receive was posted after the connection was accepted, and the peer's first message \
                answers nothing: it may come before";
    let finding = scene.finds(Rule::ReceiveLate, format!("qp {peer}"), what.into());
    Some(Found { process: pair.process, t: *t, source: source.clone(), ..finding })
}
