//! Which work requests use which memory region.

use super::Region;
use crate::model::Effect;
use crate::value::Name;

/// Takes in the changes by an entry to the regions of a run.
pub(super) fn add(regions: &mut Vec<Region>, at: usize, effect: &Effect) {
    let of = |regions: &[Region], of: usize| regions.iter().rposition(|region| region.at == of);
    if let Some(region) = effect.region.filter(|region| matches!(region.object, Name::Mr(_))) {
        match of(regions, region.at) {
            Some(known) => regions[known].ended = Some(at),
            None => regions.push(Region { at, ended: None, users: Vec::new() }),
        }
    }
    for used in effect.uses.iter().filter_map(|used| of(regions, *used)).collect::<Vec<_>>() {
        regions[used].users.push(at);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::correlation::Correlation;
    use crate::entry::What;
    use crate::testing::{CLIENT, Run, SERVER, header, key};

    #[test]
    fn a_region_has_the_requests_of_both_sides() {
        let mut run = Run::connected(&["server"]);
        run.ping_pong(1).call(CLIENT, "ibv_dereg_mr", json!([["mr", {"mr": 0}]]), json!([]));
        run.posts(CLIENT, "IBV_WR_RDMA_WRITE");
        let (_, mut entries) = run.ends();
        let last = entries.iter().rposition(|entry| matches!(entry.what, What::SendPosted(_)));
        let last = last.unwrap();
        let What::SendPosted(send) = &mut entries[last].what else { panic!() };
        send.remote = Some(crate::entry::Remote { address: 4096, rkey: key(SERVER) });
        let header = header();
        let correlation = Correlation::new(&header, &entries);
        let of = |process: u32| {
            let mut regions = correlation.regions.iter();
            regions.find(|region| entries[region.at].process == process).unwrap()
        };
        let name = |at: &usize| correlation.label(*at).rest;
        let client: Vec<_> = of(CLIENT).users.iter().map(name).collect();
        assert_eq!(client.len(), 2, "its own, and not what comes when it is gone: {client:?}");
        assert!(client[0].starts_with("receive 1: ") && client[1].starts_with("send 1: SEND"));
        assert!(of(CLIENT).ended < Some(last) && of(SERVER).ended > Some(last));
        let server: Vec<_> = of(SERVER).users.iter().map(name).collect();
        assert_eq!(server.len(), 3, "{server:?}");
        assert!(server[2].starts_with("send 2: RDMA WRITE"));
    }
}
