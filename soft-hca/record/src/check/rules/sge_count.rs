//! More SGEs in a request than were requested.

use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::What;

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "a work request with more SGEs than max_send_sge or max_recv_sge says gives EINVAL or ENOMEM \
         where the provider has not rounded up",
    cure: "ask for as many SGEs as are used",
};

#[derive(Debug, Default)]
pub(in crate::check) struct SgeCount;

impl Lookout for SgeCount {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        match &scene.entry.what {
            What::SendPosted(posted) => {
                let Some(qp) = scene.run.live_qp(posted.qp) else { return };
                let (count, most) = (posted.sges.len() as u64, qp.requested.send_sge);
                if count > most {
                    let what = format!("a send of {count} SGEs, max_send_sge {most}");
                    found.push(scene.finds(Rule::SgeCount, format!("qp {}", posted.qp), what));
                }
            }
            What::ReceivePosted(posted) => {
                let Some((_, requested)) = scene.run.receives_in(posted.queue) else { return };
                let (count, most) = (posted.sges.len() as u64, requested.recv_sge);
                if count > most {
                    let what = format!("a receive of {count} SGEs, {most} were asked for");
                    found.push(scene.finds(Rule::SgeCount, posted.queue.to_string(), what));
                }
            }
            _ => {}
        }
    }
}
