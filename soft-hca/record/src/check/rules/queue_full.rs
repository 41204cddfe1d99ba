//! More requests in a queue than were requested.

use super::unsignaled_run::unsignaled;
use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::What;

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "providers round a queue's size up, each in its own way: with the size that was asked for, posting \
         gives ENOMEM",
    cure: "poll completions before posting more, or ask for a larger queue",
};

#[derive(Debug, Default)]
pub(in crate::check) struct QueueFull;

impl Lookout for QueueFull {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        match &scene.entry.what {
            What::SendPosted(posted) => {
                let Some(qp) = scene.run.live_qp(posted.qp) else { return };
                let (count, most) = (qp.sends.requests().len() as u64, qp.requested.send_wr);
                if count > most && unsignaled(qp).is_none() {
                    let what =
                        format!("{count} sends that no polled completion ends, max_send_wr {most}");
                    let finding = scene.finds(Rule::QueueFull, format!("qp {}", posted.qp), what);
                    found.push(Found { needs_polls: true, ..finding });
                }
            }
            What::ReceivePosted(posted) => {
                let Some((receives, requested)) = scene.run.receives_in(posted.queue) else {
                    return;
                };
                let (count, most) = (receives.requests().len() as u64, requested.recv_wr);
                if count > most {
                    let what = format!(
                        "{count} receives that no message has taken, {most} were asked for"
                    );
                    found.push(scene.finds(Rule::QueueFull, posted.queue.to_string(), what));
                }
            }
            _ => {}
        }
    }
}
