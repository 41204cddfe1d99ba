//! A queue pair that went through its states with what the peer has told, and sent nothing too early.

use soft_hca_record::arguments::{qp, text, value};
use soft_hca_record::entry::Call;
use soft_hca_record::value::{Name, Value};

use crate::facts::{At, Run};
use crate::verdict::{Verdict, wrong};

/// A change to a state, if the process has made it.
fn change<'r>(run: &'r Run, process: u32, state: &str) -> Option<At<'r, Call>> {
    let mut changes = run.done(process, "ibv_modify_qp").into_iter();
    changes.find(|(_, call)| text(&call.args, "qp_state") == Some(state))
}

fn psn(call: &Call, name: &str) -> Option<u64> {
    match value(&call.args, name)? {
        Value::Name(Name::Psn(psn)) => Some((*psn).into()),
        Value::Number(psn) => u64::try_from(*psn).ok(),
        _ => None,
    }
}

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    for (index, call) in run.calls(run.student, "ibv_modify_qp") {
        run.is_done((index, call))?;
    }
    let mut changes = Vec::new();
    for state in ["IBV_QPS_INIT", "IBV_QPS_RTR", "IBV_QPS_RTS"] {
        match change(run, run.student, state) {
            Some(change) => changes.push(change),
            None => return wrong(format!("your queue pair was not brought to {state}"), []),
        }
    }
    let (rtr, rts) = (changes[1], changes[2]);
    let its = [change(run, run.peer, "IBV_QPS_RTR"), change(run, run.peer, "IBV_QPS_RTS")];
    let [Some(its_rtr), Some(its_rts)] = its else {
        return wrong("the peer's queue pair was not brought up", []);
    };
    let (dest, number) = (qp(&rtr.1.args, "dest_qp_num"), qp(&its_rtr.1.args, "qp"));
    if dest != number {
        return wrong("your dest_qp_num is not the number of the peer's queue pair", [rtr.0]);
    }
    for (mine, my_psn, theirs, their_psn, what) in [
        (rtr, "rq_psn", its_rts, "sq_psn", "it ignores what the peer sends"),
        (rts, "sq_psn", its_rtr, "rq_psn", "the peer ignores what it sends"),
    ] {
        let (my, their) = (psn(mine.1, my_psn), psn(theirs.1, their_psn));
        if let (Some(my), Some(their)) = (my, their) {
            if my != their {
                return wrong(
                    format!("your {my_psn} is {my}, and the peer's {their_psn} {their}: {what}"),
                    [mine.0, theirs.0],
                );
            }
        }
    }
    let send = run.only_send(run.student)?;
    if send.0 < its_rtr.0 {
        return wrong(
            "the send was posted before the peer's queue pair was ready to receive",
            [send.0, its_rtr.0],
        );
    }
    run.is_complete(send)?;
    match run.receives(run.student).first() {
        Some((index, _)) => run.is_received(*index),
        None => wrong("no receive was posted for the answer", []),
    }
}
