//! Attributes that both ends of a connection have to set alike.

use std::collections::HashMap;

use soft_hca_verbs::{Mtu, QpState};

use super::{Found, Rule, done, source};
use crate::arguments::{qp, word};
use crate::entry::{Call, Entry, What};

/// One end: a queue pair.
#[derive(Debug, Default)]
struct End {
    process: u32,
    /// `dest_qp_num`
    peer: Option<u32>,
    /// `path_mtu`
    mtu: Option<Mtu>,
}

/// Queue pairs that are there, as far as their paths go.
#[derive(Debug, Default)]
pub(super) struct Paths(HashMap<u32, End>);

impl Paths {
    pub(super) fn entry(&mut self, entry: &Entry, found: &mut Vec<Found>) {
        match &entry.what {
            What::Call(call) => found.extend(self.call(entry, call)),
            What::ProcessEnded { .. } => self.0.retain(|_, end| end.process != entry.process),
            _ => {}
        }
    }

    fn call(&mut self, entry: &Entry, call: &Call) -> Option<Found> {
        let (args, given) = done(call)?;
        let process = entry.process;
        match call.name.as_str() {
            "ibv_create_qp" | "ibv_create_qp_ex" => {
                self.0.insert(qp(given, "qp_num")?, End { process, ..End::default() });
            }
            "ibv_destroy_qp" => _ = self.0.remove(&qp(args, "qp")?),
            "ibv_modify_qp" => {
                let number = qp(args, "qp")?;
                let end = self.0.get_mut(&number)?;
                if word(args, "qp_state") == Some(QpState::RESET) {
                    *end = End { process, ..End::default() };
                }
                end.peer = qp(args, "dest_qp_num").or(end.peer);
                end.mtu = Some(word(args, "path_mtu")?);
                return self.differs(number, entry);
            }
            _ => {}
        }
        None
    }

    /// Reports the end that is set second.
    fn differs(&self, number: u32, entry: &Entry) -> Option<Found> {
        let end = self.0.get(&number)?;
        let peer = self.0.get(&end.peer?).filter(|peer| peer.peer == Some(number))?;
        let (own, its) = (end.mtu?, peer.mtu?);
        (own != its).then(|| Found {
            rule: Rule::PathMtu,
            process: entry.process,
            place: format!("qp {number}"),
            what: format!("path_mtu {own}, and the peer's path_mtu {its}"),
            t: entry.t,
            source: source(entry),
        })
    }
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
