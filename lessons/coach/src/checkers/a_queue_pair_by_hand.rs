//! A queue pair that went through its states with what the peer has told, and sent nothing too early.

use soft_hca_record::arguments::{number, qp, text, value, word};
use soft_hca_record::entry::Call;
use soft_hca_record::value::{Name, Value};
use soft_hca_verbs::{Mtu, QpState};

use crate::facts::{At, Run};
use crate::verdict::{Verdict, wrong};

/// The message of the student's program, which is in its buffer from the start.
const TEXT: &str = "by hand";
/// The peer's answer.
const ANSWER: &str = "so it was";

/// A change to a state, if the process has made it.
fn change<'r>(run: &'r Run, process: u32, state: QpState) -> Option<At<'r, Call>> {
    let mut changes = run.done(process, "ibv_modify_qp").into_iter();
    changes.find(|(_, call)| word(&call.args, "qp_state") == Some(state))
}

fn psn(call: &Call, name: &str) -> Option<u64> {
    match value(&call.args, name)? {
        Value::Name(Name::Psn(psn)) => Some((*psn).into()),
        Value::Number(psn) => u64::try_from(*psn).ok(),
        _ => None,
    }
}

/// The number of bytes that a `path_mtu` stands for.
fn bytes(call: &Call) -> Option<u32> {
    word(&call.args, "path_mtu").map(Mtu::bytes)
}

/// Checks that packets reach the peer, and are not longer than its `path_mtu`.
fn is_way(mine: At<'_, Call>, theirs: At<'_, Call>) -> Verdict {
    // Each side's dgid has to be the other's GID, and the two devices have different ones.
    if text(&mine.1.args, "dgid") == text(&theirs.1.args, "dgid") {
        return wrong(
            "your dgid is your own GID: the packets go to your own device, and not to the peer's",
            [mine.0, theirs.0],
        );
    }
    if number(&mine.1.args, "hop_limit") == Some(0) {
        return wrong(
            "your hop_limit is 0: a packet with that is thrown away by whoever gets it, if it is sent at all",
            [mine.0],
        );
    }
    if let (Some(my), Some(its)) = (bytes(mine.1), bytes(theirs.1)) {
        if my > its {
            return wrong(
                format!(
                    "your path_mtu is {my}, and the peer's {its}: it throws away what is longer"
                ),
                [mine.0, theirs.0],
            );
        }
    }
    Ok(())
}

/// Has the program printed its buffer before the answer was in it? The peer answers some time after
/// the message.
fn is_shown_late(run: &Run, received: Option<usize>) -> Verdict {
    let has = |text| run.student_said.iter().any(|line| line.contains(text));
    if has(TEXT) && !has(ANSWER) {
        return wrong(
            format!(
                "your program has printed {TEXT:?}, which was in its buffer before: the answer is there when \
                 the completion of the receive is"
            ),
            received,
        );
    }
    Ok(())
}

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    for (index, call) in run.calls(run.student, "ibv_modify_qp") {
        run.is_done((index, call))?;
    }
    let mut changes = Vec::new();
    for state in [QpState::INIT, QpState::RTR, QpState::RTS] {
        match change(run, run.student, state) {
            Some(change) => changes.push(change),
            None => return wrong(format!("your queue pair was not brought to {state}"), []),
        }
    }
    let (rtr, rts) = (changes[1], changes[2]);
    let its = [change(run, run.peer, QpState::RTR), change(run, run.peer, QpState::RTS)];
    let [Some(its_rtr), Some(its_rts)] = its else {
        return wrong("the peer's queue pair was not brought up", []);
    };
    is_way(rtr, its_rtr)?;
    if qp(&rtr.1.args, "dest_qp_num") != qp(&its_rtr.1.args, "qp") {
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
    let Some((index, _)) = run.receives(run.student).first().copied() else {
        return wrong("no receive was posted for the answer", []);
    };
    run.is_received(index)?;
    is_shown_late(run, run.request(index).received)
}
