//! Each region grants what it is used for, and no more.

use std::collections::BTreeSet;

use soft_hca_record::arguments;
use soft_hca_record::entry::Call;
use soft_hca_verbs::{AccessFlags, WrOpcode};

use crate::facts::{Run, access, key};
use crate::verdict::{Verdict, wrong};

/// What a region is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Send,
    Receive,
    RemoteRead,
    RemoteWrite,
}

impl Use {
    fn needs(self) -> AccessFlags {
        match self {
            Self::Send => AccessFlags::empty(),
            Self::Receive => AccessFlags::LOCAL_WRITE,
            Self::RemoteRead => AccessFlags::REMOTE_READ,
            Self::RemoteWrite => AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Send => "to send from",
            Self::Receive => "to receive into",
            Self::RemoteRead => "for the peer to read",
            Self::RemoteWrite => "for the peer to write",
        }
    }
}

/// What the requests of both sides use a region for.
fn uses(run: &Run, region: &Call) -> BTreeSet<Use> {
    let (lkey, rkey) = (key(region, "lkey"), key(region, "rkey"));
    let mut uses = BTreeSet::new();
    let is_local =
        |sges: &[soft_hca_record::entry::Sge]| sges.iter().any(|sge| Some(sge.lkey) == lkey);
    if run.sends(run.student).iter().any(|(_, send)| is_local(&send.sges)) {
        uses.insert(Use::Send);
    }
    if run.receives(run.student).iter().any(|(_, receive)| is_local(&receive.sges)) {
        uses.insert(Use::Receive);
    }
    for (_, send) in run.sends(run.peer) {
        let is_remote = send.remote.is_some_and(|remote| Some(remote.rkey) == rkey);
        match send.opcode {
            WrOpcode::RDMA_READ if is_remote => uses.insert(Use::RemoteRead),
            WrOpcode::RDMA_WRITE if is_remote => uses.insert(Use::RemoteWrite),
            _ => false,
        };
    }
    uses
}

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let regions = run.done(run.student, "ibv_reg_mr");
    for (index, region) in &regions {
        let length = arguments::number(&region.args, "length").unwrap_or_default();
        let uses = uses(run, region);
        let texts: Vec<&str> = uses.iter().map(|one| one.text()).collect();
        if uses.len() > 1 {
            let texts = texts.join(", ");
            return wrong(
                format!(
                    "the region of {length} bytes is used for more than one thing ({texts}), and each \
                     gets the others' rights"
                ),
                [*index],
            );
        }
        let granted = access(region);
        let needed: AccessFlags = uses.iter().map(|one| one.needs()).collect();
        let what = texts.first().copied().unwrap_or("for nothing that was seen");
        if let Some(right) = needed.difference(granted).names().next() {
            return wrong(format!("the region {what} needs {right}"), [*index]);
        }
        // Without a use it may be one that the run has not come to.
        let extra = granted.difference(needed).names().next();
        if let Some(right) = extra.filter(|_| !uses.is_empty()) {
            let what = format!("the region {what} grants {right}, which nobody needs");
            return wrong(what, [*index]);
        }
    }
    run.all_went_well(run.student)?;
    let all: BTreeSet<Use> = regions.iter().flat_map(|(_, region)| uses(run, region)).collect();
    for one in [Use::Receive, Use::RemoteRead, Use::RemoteWrite] {
        if !all.contains(&one) {
            return wrong(format!("no region was used {}", one.text()), []);
        }
    }
    Ok(())
}
