//! More RDMA reads or atomic operations at a time than the peer has resources for.

use soft_hca_verbs::WrOpcode;

use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::What;

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "max_rd_atomic must not exceed the peer's max_dest_rd_atomic: one read more at a time fails with \
         IBV_WC_REM_INV_REQ_ERR",
    cure: "exchange the limits when connecting, and take the smaller one",
};

#[derive(Debug, Default)]
pub(in crate::check) struct ReadDepth;

impl Lookout for ReadDepth {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        let What::SendPosted(posted) = &scene.entry.what else { return };
        if posted.opcode != WrOpcode::RDMA_READ && !posted.opcode.is_atomic() {
            return;
        }
        let Some(qp) = scene.run.live_qp(posted.qp) else { return };
        let Some(peer) = qp.peer.and_then(|peer| scene.run.live_qp(peer)) else { return };
        let (own, its) = (qp.max_rd_atomic, peer.max_dest_rd_atomic);
        if own > its {
            let what = format!("max_rd_atomic {own}, and the peer's max_dest_rd_atomic {its}");
            found.push(scene.finds(Rule::ReadDepth, format!("qp {}", posted.qp), what));
        }
    }
}
