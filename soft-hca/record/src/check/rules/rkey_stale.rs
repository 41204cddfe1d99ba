//! A region that is deregistered while requests use it.

use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::Sge;

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "requests that begin later fail with IBV_WC_LOC_PROT_ERR, and an adapter may be writing to memory \
         that is the system's again",
    cure: "deregister when all requests that use the region have completed, or the queue pair is destroyed",
};

#[derive(Debug, Default)]
pub(in crate::check) struct RkeyStale;

impl Lookout for RkeyStale {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        let gone = scene.effect.region.filter(|region| region.gone.is_some());
        let Some(region) = gone else { return };
        let Some(key) = region.lkey else { return };
        let uses = |sges: &[Sge]| sges.iter().any(|sge| sge.lkey == key);
        let own = scene.run.live_qps();
        let own = own.filter(|(_, qp)| qp.process == region.process && !qp.is_in_error);
        for (number, qp) in own {
            let sends = qp.sends.in_use().filter(|send| uses(&send.sges)).count();
            let posted = qp.receives.requests().filter(|receive| uses(&receive.sges)).count();
            let cq = qp.recv_cq.and_then(|cq| scene.run.cqs.get(&cq));
            let unpolled = cq.into_iter().flat_map(|cq| &cq.unpolled);
            let unpolled = unpolled.filter(|one| {
                let receive = one.receive.as_ref().filter(|_| one.is_receive && one.qp == number);
                receive.is_some_and(|receive| uses(&receive.sges))
            });
            let receives = posted + unpolled.count();
            if sends + receives > 0 {
                let what = format!(
                    "a region (lkey {key:#x}) was deregistered while {sends} sends and {receives} \
                     receives that use it were posted, and not polled"
                );
                found.push(scene.finds(Rule::RkeyStale, format!("qp {number}"), what));
            }
        }
    }
}
