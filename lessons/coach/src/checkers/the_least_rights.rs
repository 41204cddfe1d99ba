//! Each region grants what it is used for, and no more.

use std::collections::BTreeSet;

use soft_hca_record::arguments;
use soft_hca_record::entry::Call;
use soft_hca_verbs::{AccessFlags, WrOpcode};

use crate::facts::{Run, access, key};
use crate::verdict::{Verdict, wrong};
use crate::words::{Words, words};

/// A use of a memory region.
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

    fn text(self) -> Words {
        match self {
            Self::Send => words!("to send from", "用来发送"),
            Self::Receive => words!("to receive into", "用来接收"),
            Self::RemoteRead => words!("for the peer to read", "给对端读"),
            Self::RemoteWrite => words!("for the peer to write", "给对端写"),
        }
    }
}

/// Uses of a memory region by the work requests of both sides.
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
        let texts: Vec<Words> = uses.iter().map(|one| one.text()).collect();
        if uses.len() > 1 {
            let texts = Words::list(&texts);
            return wrong(
                words!(
                    "the region of {length} bytes is used for more than one thing \
                     ({texts}), and each gets the others' rights",
                    "{length} 字节的内存区域有不止一种用途（{texts}），\
                     每种都得到了别种的权限",
                    [texts]
                ),
                [*index],
            );
        }
        let granted = access(region);
        let needed: AccessFlags = uses.iter().map(|one| one.needs()).collect();
        let unknown = || words!("for nothing that was seen", "看不出有什么用途");
        let what = texts.into_iter().next().unwrap_or_else(unknown);
        if let Some(right) = needed.difference(granted).names().next() {
            return wrong(
                words!("the region {what} needs {right}", "{what}的内存区域需要 {right}", [what]),
                [*index],
            );
        }
        // Without a use it may be one that the run has not come to.
        let extra = granted.difference(needed).names().next();
        if let Some(right) = extra.filter(|_| !uses.is_empty()) {
            let what = words!(
                "the region {what} grants {right}, which nobody needs",
                "{what}的内存区域授予了 {right}，没有谁需要它",
                [what]
            );
            return wrong(what, [*index]);
        }
    }
    run.all_went_well(run.student)?;
    let all: BTreeSet<Use> = regions.iter().flat_map(|(_, region)| uses(run, region)).collect();
    for one in [Use::Receive, Use::RemoteRead, Use::RemoteWrite] {
        if !all.contains(&one) {
            let what = one.text();
            return wrong(
                words!("no region was used {what}", "没有哪个内存区域{what}", [what]),
                [],
            );
        }
    }
    Ok(())
}
