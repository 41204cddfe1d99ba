//! Which work requests use which memory region.

use super::{Correlation, Region};
use crate::arguments::name;
use crate::entry::{Call, Outcome, What};
use crate::value::{Name, Named};

/// A region that is registered.
struct Live {
    region: usize,
    participant: usize,
    mr: Option<Name>,
    lkey: Option<u32>,
    rkey: Option<u32>,
}

/// All regions of a run.
pub(super) fn find(correlation: &Correlation<'_>) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    let mut live: Vec<Live> = Vec::new();
    for (at, entry) in correlation.entries.iter().enumerate() {
        let participant = correlation.participant[at];
        match &entry.what {
            What::Call(call) => {
                if let Some(made) = registered(call, regions.len(), participant) {
                    live.push(made);
                    regions.push(Region { at, ended: None, users: Vec::new() });
                } else if call.name == "ibv_dereg_mr" && matches!(call.result, Outcome::Done(_)) {
                    let gone = name(&call.args, "mr");
                    let is_it = |one: &Live| one.participant == participant && one.mr == gone;
                    if let Some(gone) = live.iter().position(is_it) {
                        regions[live.remove(gone).region].ended = Some(at);
                    }
                }
            }
            What::SendPosted(send) => {
                let own = send.sges.iter().map(|sge| local(&live, participant, sge.lkey));
                let peer = correlation.transfer[at].and_then(|one| correlation.transfers[one].peer);
                let far =
                    send.remote.map(|remote| remote_one(&live, participant, peer, remote.rkey));
                own.chain(far).flatten().for_each(|region| regions[region].uses(at));
            }
            What::ReceivePosted(receive) => {
                let own = receive.sges.iter().map(|sge| local(&live, participant, sge.lkey));
                own.flatten().for_each(|region| regions[region].uses(at));
            }
            _ => {}
        }
    }
    regions
}

/// What a call has registered, if it has.
fn registered(call: &Call, region: usize, participant: usize) -> Option<Live> {
    let Outcome::Done(results) = &call.result else { return None };
    let is_registration = call.name.starts_with("ibv_reg_") && call.name.ends_with("mr");
    let (lkey, rkey) = (key(results, "lkey"), key(results, "rkey"));
    is_registration.then(|| Live { region, participant, mr: name(results, "mr"), lkey, rkey })
}

fn key(results: &[Named], wanted: &str) -> Option<u32> {
    match name(results, wanted)? {
        Name::Key(key) => Some(key),
        _ => None,
    }
}

fn local(live: &[Live], participant: usize, lkey: u32) -> Option<usize> {
    let mut own = live.iter().rev().filter(|one| one.participant == participant);
    own.find(|one| one.lkey == Some(lkey)).map(|one| one.region)
}

/// The region that another participant's request names: that of whom it is connected to, if that is known.
fn remote_one(live: &[Live], from: usize, peer: Option<usize>, rkey: u32) -> Option<usize> {
    let mut so_called = live.iter().rev().filter(|one| one.rkey == Some(rkey));
    let is_it = |one: &&Live| peer.map_or(one.participant != from, |peer| one.participant == peer);
    so_called.find(is_it).map(|one| one.region)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{CLIENT, Run, SERVER, header};

    fn registers(run: &mut Run, process: u32, key: u32) {
        let done = json!([["mr", {"mr": 7}], ["lkey", {"key": key}], ["rkey", {"key": key}]]);
        run.call(process, "ibv_reg_mr", json!([["length", 16]]), done);
    }

    #[test]
    fn a_region_has_the_requests_of_both_sides() {
        let mut run = Run::connected(&["server"]);
        registers(&mut run, CLIENT, 385);
        registers(&mut run, SERVER, 385);
        run.ping_pong(1).call(CLIENT, "ibv_dereg_mr", json!([["mr", {"mr": 7}]]), json!([]));
        run.posts(CLIENT, "IBV_WR_RDMA_WRITE");
        let (_, mut entries) = run.ends();
        let last = entries.iter().rposition(|entry| matches!(entry.what, What::SendPosted(_)));
        let What::SendPosted(send) = &mut entries[last.unwrap()].what else { panic!() };
        send.remote = Some(crate::entry::Remote { address: 4096, rkey: 385 });
        let header = header();
        let correlation = Correlation::new(&header, &entries);
        let of = |process: u32| {
            let mut regions = correlation.regions.iter();
            regions.rfind(|region| entries[region.at].process == process).unwrap()
        };
        let name = |at: &usize| correlation.label(*at).rest;
        let client: Vec<_> = of(CLIENT).users.iter().map(name).collect();
        assert_eq!(client.len(), 1, "its send, and not what comes when it is gone: {client:?}");
        assert!(client[0].starts_with("send 1: SEND"));
        assert!(of(CLIENT).ended.is_some() && of(SERVER).ended.is_none());
        let server: Vec<_> = of(SERVER).users.iter().map(name).collect();
        assert_eq!(server.len(), 2, "{server:?}");
        assert!(server[1].starts_with("send 2: RDMA WRITE"));
    }
}
