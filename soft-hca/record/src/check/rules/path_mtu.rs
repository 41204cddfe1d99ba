//! Attributes that both ends of a connection have to set alike.

use soft_hca_verbs::Mtu;

use crate::arguments::{qp, word};
use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "a message longer than the smaller path_mtu comes in packets of a length that the other side does not \
         expect: it drops them, or refuses them with IBV_WC_REM_INV_REQ_ERR; shorter ones pass",
    cure: "exchange path_mtu when connecting, and set the smaller one at both ends, no larger than active_mtu of \
         their ports",
};

#[derive(Debug, Default)]
pub(in crate::check) struct PathMtu;

impl Lookout for PathMtu {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        found.extend(differs(scene));
    }

    fn needs_all(&self) -> bool {
        true
    }
}

/// Reports the end that is set second.
fn differs(scene: Scene<'_>) -> Option<Found> {
    let ("ibv_modify_qp", args, _) = scene.call()? else { return None };
    let own = word::<Mtu>(args, "path_mtu")?;
    let number = qp(args, "qp")?;
    let peer = scene.run.live_qp(scene.run.live_qp(number)?.peer?)?;
    let its = peer.path_mtu.filter(|_| peer.peer == Some(number))?;
    let what = format!("path_mtu {own}, and the peer's path_mtu {its}");
    (own != its).then(|| scene.finds(Rule::PathMtu, format!("qp {number}"), what))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check::Rule;
    use crate::check::tests::{findings, pair};
    use crate::testing::{CLIENT, SERVER};

    #[test]
    fn path_mtus_of_both_ends() {
        let ends = |[server, client]: [&str; 2], peer: u32| {
            let mut run = pair("IBV_ACCESS_LOCAL_WRITE");
            for (process, own, peer, mtu) in [(SERVER, 17, 18, server), (CLIENT, 18, peer, client)]
            {
                let args =
                    json!([["qp", {"qp": own}], ["dest_qp_num", {"qp": peer}], ["path_mtu", mtu]]);
                run.call(process, "ibv_modify_qp", args, json!([]));
            }
            findings(&run).into_iter().map(|found| (found.rule, found.place)).collect::<Vec<_>>()
        };
        let found = [(Rule::PathMtu, "qp 18".to_owned())];
        assert_eq!(ends(["IBV_MTU_4096", "IBV_MTU_1024"], 17), found);
        assert_eq!(ends(["IBV_MTU_1024", "IBV_MTU_1024"], 17), []);
        assert_eq!(ends(["IBV_MTU_4096", "IBV_MTU_1024"], 19), [], "it is another's peer");
    }
}
