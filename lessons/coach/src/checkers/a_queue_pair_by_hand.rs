//! A queue pair that went through its states with what the peer has told, and sent nothing too early.

use soft_hca_record::arguments::{number, qp, text, value, word};
use soft_hca_record::entry::Call;
use soft_hca_record::value::{Name, Value};
use soft_hca_verbs::{Mtu, QpState};

use crate::facts::{At, Run};
use crate::verdict::{Verdict, wrong};
use crate::words::words;

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
            words!(
                "your dgid is your own GID: the packets go to your own device, and not to \
                 the peer's",
                "你的 dgid 是你自己的 GID：包发给了你自己的设备，而不是对端的"
            ),
            [mine.0, theirs.0],
        );
    }
    if number(&mine.1.args, "hop_limit") == Some(0) {
        return wrong(
            words!(
                "your hop_limit is 0: a packet with that is thrown away by whoever gets it, \
                 if it is sent at all",
                "你的 hop_limit 是 0：这样的包就算发得出去，谁收到都会丢掉"
            ),
            [mine.0],
        );
    }
    if let (Some(my), Some(its)) = (bytes(mine.1), bytes(theirs.1)) {
        if my > its {
            return wrong(
                words!(
                    "your path_mtu is {my}, and the peer's {its}: it throws away what is \
                     longer",
                    "你的 path_mtu 是 {my}，对端的是 {its}：更长的包它会丢掉"
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
            words!(
                "your program has printed {TEXT:?}, which was in its buffer before: the \
                 answer is there when the completion of the receive is",
                "你的程序打印了 {TEXT:?}，那是缓冲区里原来的内容：\
                 接收请求的工作完成到来时，回答才在那里"
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
            None => {
                return wrong(
                    words!(
                        "your queue pair was not brought to {state}",
                        "你的队列对没有进入 {state} 状态"
                    ),
                    [],
                );
            }
        }
    }
    let (rtr, rts) = (changes[1], changes[2]);
    let its = [change(run, run.peer, QpState::RTR), change(run, run.peer, QpState::RTS)];
    let [Some(its_rtr), Some(its_rts)] = its else {
        return wrong(
            words!("the peer's queue pair was not brought up", "对端的队列对没有建立起来"),
            [],
        );
    };
    is_way(rtr, its_rtr)?;
    if qp(&rtr.1.args, "dest_qp_num") != qp(&its_rtr.1.args, "qp") {
        return wrong(
            words!(
                "your dest_qp_num is not the number of the peer's queue pair",
                "你的 dest_qp_num 不是对端队列对的编号"
            ),
            [rtr.0],
        );
    }
    for (mine, my_psn, theirs, their_psn, what) in [
        (
            rtr,
            "rq_psn",
            its_rts,
            "sq_psn",
            words!("it ignores what the peer sends", "它不理会对端发来的包"),
        ),
        (
            rts,
            "sq_psn",
            its_rtr,
            "rq_psn",
            words!("the peer ignores what it sends", "对端不理会它发出的包"),
        ),
    ] {
        let (my, their) = (psn(mine.1, my_psn), psn(theirs.1, their_psn));
        if let (Some(my), Some(their)) = (my, their) {
            if my != their {
                return wrong(
                    words!(
                        "your {my_psn} is {my}, and the peer's {their_psn} {their}: {what}",
                        "你的 {my_psn} 是 {my}，对端的 {their_psn} 是 {their}：{what}",
                        [what]
                    ),
                    [mine.0, theirs.0],
                );
            }
        }
    }
    let send = run.only_send(run.student)?;
    if send.0 < its_rtr.0 {
        return wrong(
            words!(
                "the send was posted before the peer's queue pair was ready to receive",
                "对端的队列对还不能接收，发送请求就提交了"
            ),
            [send.0, its_rtr.0],
        );
    }
    run.is_complete(send)?;
    let Some((index, _)) = run.receives(run.student).first().copied() else {
        return wrong(words!("no receive was posted for the answer", "没有为回答提交接收请求"), []);
    };
    run.is_received(index)?;
    is_shown_late(run, run.request(index).received())
}
