//! A datagram comes into a receive that has room for its header as well, and its bytes go back to its sender.

use harness::process::Ending;
use soft_hca_record::cause::sentence;
use soft_hca_record::entry::{ReceivePosted, SendPosted, Sge};
use soft_hca_verbs::cause::{Cause, Lost};

use crate::facts::{At, Run};
use crate::verdict::{Verdict, wrong};

/// Bytes of the global routing header.
const GRH: u64 = 40;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let Some(&question) = run.sends(run.peer).first() else {
        return wrong("the peer could not send: was its question accepted?", []);
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
                format!(
                    "the answer has the Q_Key {sent:#x}, and the peer's queue pair {its:#x}: it is lost, \
                     and nobody tells your program"
                ),
                [answer.0],
            );
        }
        Some(reason) => {
            return wrong(format!("the answer is lost: {}", sentence(reason)), [answer.0]);
        }
    }
    // The peer has looked at the bytes; the record has not.
    if run.peer_end == Some(Ending::Code(0)) { Ok(()) } else { place(receive, answer) }
}

/// The receive that the peer's datagram has come into.
fn received<'r>(
    run: &'r Run,
    (sent, question): At<'r, SendPosted>,
) -> Result<At<'r, ReceivePosted>, crate::verdict::Wrong> {
    let receives = run.receives(run.student);
    let taken = run.request(sent).receive;
    let wrong = |what, entries| Err(crate::verdict::Wrong { what, entries });
    if let Some(receive) = receives.iter().find(|(index, _)| Some(*index) == taken) {
        return Ok(*receive);
    }
    let Some(&(index, receive)) = receives.first() else {
        return wrong("no receive was posted".to_owned(), vec![sent]);
    };
    let (room, length) = (receive.length, question.length);
    if room < length + GRH {
        let what = format!(
            "the receive has room for {room} bytes: the datagram has {length}, and {GRH} of the global \
             routing header come in front of it, so that it is lost"
        );
        return wrong(what, vec![index, sent]);
    }
    let reason = lost(run, sent).map_or(String::new(), |reason| format!(": {}", sentence(reason)));
    wrong(format!("the peer's datagram is lost{reason}"), vec![index, sent])
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
        return wrong("the answer is no datagram", [index]);
    };
    let (to, from) = (destination.qp, question.qp);
    if to == answer.qp {
        return wrong(
            format!(
                "the answer goes to queue pair {to}, which is your own: the sender's number is src_qp of \
                 the completion, {from}"
            ),
            [sent, index],
        );
    }
    if to != from {
        return wrong(
            format!("the answer goes to queue pair {to}, and the datagram came from {from}"),
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
        format!(": byte_len counts the {GRH} of the header as well")
    } else {
        String::new()
    };
    wrong(format!("the answer has {length} bytes, and the datagram {wanted}{why}"), [sent, index])
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
            format!(
                "the answer is sent from where the global routing header is: what has come begins {GRH} \
                 bytes behind the receive's beginning"
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
