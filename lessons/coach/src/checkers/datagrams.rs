//! A datagram comes into a receive that has room for its header as well, and its bytes go back to its sender.

use harness::process::Ending;
use soft_hca_record::cause::sentence;
use soft_hca_record::entry::{ReceivePosted, SendPosted, Sge};
use soft_hca_verbs::cause::{Cause, Lost};

use crate::facts::{At, Run};
use crate::verdict::{Verdict, Wrong, wrong};
use crate::words::{Words, words};

/// Bytes of the global routing header.
const GRH: u64 = 40;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let Some(&question) = run.sends(run.peer).first() else {
        return wrong(
            words!(
                "the peer could not send: was its question accepted?",
                "对端没能发送：它的请求被接受了吗？"
            ),
            [],
        );
    };
    let receive = received(run, question)?;
    run.is_received(receive.0)?;
    let answer = run.only_send(run.student)?;
    destination(run, question, answer)?;
    length(question, answer)?;
    run.is_complete(answer)?;
    match lost(run, answer.0) {
        None => {}
        Some(Cause::NotTaken { why: Lost::QKey { its, sent, .. } }) => {
            return wrong(
                words!(
                    "the answer has the Q_Key {sent:#x}, and the peer's queue pair \
                     {its:#x}: it is lost, and nobody tells your program",
                    "回答的 Q_Key 是 {sent:#x}，对端队列对的是 {its:#x}：回答丢了，\
                     也没有谁告诉你的程序"
                ),
                [answer.0],
            );
        }
        Some(reason) => {
            return wrong(
                words!(
                    "the answer is lost: {reason}",
                    "回答丢了：{reason}",
                    reason = sentence(reason)
                ),
                [answer.0],
            );
        }
    }
    // The peer has looked at the bytes; the record has not.
    if run.peer_end == Some(Ending::Code(0)) { Ok(()) } else { place(receive, answer) }
}

/// The receive that the peer's datagram has come into.
fn received<'r>(
    run: &'r Run,
    (sent, question): At<'r, SendPosted>,
) -> Result<At<'r, ReceivePosted>, Wrong> {
    let receives = run.receives(run.student);
    let taken = run.request(sent).receive();
    let wrong = |what, entries| Err(Wrong { what, entries });
    if let Some(receive) = receives.iter().find(|(index, _)| Some(*index) == taken) {
        return Ok(*receive);
    }
    let Some(&(index, receive)) = receives.first() else {
        return wrong(words!("no receive was posted", "没有提交接收请求"), vec![sent]);
    };
    let (room, length) = (receive.length, question.length);
    if room < length + GRH {
        let what = words!(
            "the receive has room for {room} bytes: the datagram has {length}, and {GRH} \
             of the global routing header come in front of it, so that it is lost",
            "接收请求只有 {room} 字节的空间：数据报有 {length} 字节，\
             前面还有全局路由头的 {GRH} 字节，所以它丢了"
        );
        return wrong(what, vec![index, sent]);
    }
    let reason = Words::reason(lost(run, sent).map(sentence));
    wrong(
        words!("the peer's datagram is lost{reason}", "对端的数据报丢了{reason}", [reason]),
        vec![index, sent],
    )
}

/// Why a datagram was lost, by the index at which it was posted.
fn lost(run: &Run, posted: usize) -> Option<&Cause> {
    run.execution(posted).and_then(|(_, executed)| executed.reason.as_ref())
}

/// The answer goes to who has sent the question.
fn destination(
    run: &Run,
    (sent, question): At<'_, SendPosted>,
    (index, answer): At<'_, SendPosted>,
) -> Verdict {
    let Some(destination) = &answer.destination else {
        return wrong(words!("the answer is no datagram", "回答不是数据报"), [index]);
    };
    let (to, from) = (destination.qp, question.qp);
    if to == answer.qp {
        return wrong(
            words!(
                "the answer goes to queue pair {to}, which is your own: the sender's \
                 number is src_qp of the completion, {from}",
                "回答发往队列对 {to}，那是你自己的：发送方的编号是工作完成的 src_qp，\
                 即 {from}"
            ),
            [sent, index],
        );
    }
    if to != from {
        return wrong(
            words!(
                "the answer goes to queue pair {to}, and the datagram came from {from}",
                "回答发往队列对 {to}，而数据报来自 {from}"
            ),
            [sent, index],
        );
    }
    // An address handle that leads nowhere fails here, and not as a datagram that is lost.
    run.is_executed((index, answer))
}

/// The answer is as long as the datagram.
fn length((sent, question): At<'_, SendPosted>, (index, answer): At<'_, SendPosted>) -> Verdict {
    let (length, wanted) = (answer.length, question.length);
    if length == wanted {
        return Ok(());
    }
    let why = if length == wanted + GRH {
        words!(
            ": byte_len counts the {GRH} of the header as well",
            "：byte_len 把路由头的 {GRH} 字节也算在内"
        )
    } else {
        Words::default()
    };
    wrong(
        words!(
            "the answer has {length} bytes, and the datagram {wanted}{why}",
            "回答有 {length} 字节，而数据报有 {wanted} 字节{why}",
            [why]
        ),
        [sent, index],
    )
}

/// The answer, whose bytes are not right, is not sent from where the header has come.
fn place(
    (received, receive): At<'_, ReceivePosted>,
    (index, answer): At<'_, SendPosted>,
) -> Verdict {
    let header = first_bytes(&receive.sges, GRH);
    let is_in = |sge: &Sge| {
        let ends = |one: &Sge| one.address + u64::from(one.length);
        header.iter().any(|part| sge.address < ends(part) && part.address < ends(sge))
    };
    if answer.sges.iter().any(is_in) {
        return wrong(
            words!(
                "the answer is sent from where the global routing header is: what has \
                 come begins {GRH} bytes behind the receive's beginning",
                "回答是从放全局路由头的地方发出的：\
                 收到的数据在接收请求开头之后 {GRH} 字节处才开始"
            ),
            [received, index],
        );
    }
    Ok(())
}

/// Where the first bytes of a scatter list are.
fn first_bytes(sges: &[Sge], mut left: u64) -> Vec<Sge> {
    let mut parts = Vec::new();
    for sge in sges {
        let length = left.min(sge.length.into());
        left -= length;
        if length > 0 {
            parts.push(Sge { length: length as u32, ..*sge });
        }
    }
    parts
}
