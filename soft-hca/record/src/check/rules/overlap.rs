//! Memory that two requests may write to, or that one writes to and another sends.

use soft_hca_verbs::SendFlags;

use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::What;

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "an adapter writes a message whenever it comes: the bytes are the other request's as well",
    cure: "give each request memory of its own until it has completed",
};

#[derive(Debug, Default)]
pub(in crate::check) struct Overlap;

impl Lookout for Overlap {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        match &scene.entry.what {
            What::SendPosted(posted) if !posted.flags.contains(SendFlags::INLINE) => {
                let Some(qp) = scene.run.live_qp(posted.qp) else { return };
                let written = scene.run.processes.get(&qp.process).map(|process| &process.written);
                let shared = written.and_then(|written| written.overlap(&posted.sges));
                if let Some((from, to)) = shared {
                    let what = format!(
                        "a send uses {from:#x} to {to:#x}, which a posted receive has, too"
                    );
                    found.push(scene.finds(Rule::Overlap, format!("qp {}", posted.qp), what));
                }
            }
            What::ReceivePosted(posted) => {
                if let Some((from, to)) = scene.effect.shared {
                    let what = format!("two posted receives have {from:#x} to {to:#x}");
                    found.push(scene.finds(Rule::Overlap, posted.queue.to_string(), what));
                }
            }
            _ => {}
        }
    }
}
