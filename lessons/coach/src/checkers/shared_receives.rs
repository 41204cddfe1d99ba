//! Two queue pairs take their receives from one queue, whose limit is armed, and which is filled again
//! whenever the limit is reached and before it is empty.

use soft_hca_record::arguments;
use soft_hca_record::entry::{Executed, ReceiveQueue, What};
use soft_hca_verbs::{Cause, EventType};

use crate::facts::Run;
use crate::verdict::{Verdict, wrong};

/// So many receives have memory.
const RECEIVES: usize = 16;
/// The peer has so many messages.
const MESSAGES: usize = 33;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    queues(run)?;
    for name in ["ibv_post_recv", "ibv_post_srq_recv", "ibv_modify_srq"] {
        for call in run.calls(run.student, name) {
            run.is_done(call)?;
        }
    }
    if run.receives(run.student).is_empty() {
        return wrong("no receive was posted to the shared receive queue", []);
    }
    if limits(run).is_empty() {
        return wrong(
            "no limit was armed: ibv_modify_srq with IBV_SRQ_LIMIT does that, and nothing tells before \
             that few receives are left",
            [],
        );
    }
    is_limit(run)?;
    events(run)?;
    never_empty(run)?;
    answers(run)?;
    if reached(run).is_empty() {
        return wrong(
            "the limit was never reached: your program posts receives before the event says that few are \
             left",
            [],
        );
    }
    let (messages, answers) = (run.sends(run.peer).len(), run.sends(run.student).len());
    if answers != messages {
        return wrong(format!("{messages} messages were sent, and {answers} answers"), []);
    }
    Ok(())
}

/// Each queue pair has the one shared receive queue.
fn queues(run: &Run) -> Verdict {
    let created = run.done(run.student, "ibv_create_qp");
    let mut first = None;
    for (index, call) in &created {
        let Some(srq) = arguments::srq(&call.args, "srq") else {
            return wrong("a queue pair has a receive queue of its own", [*index]);
        };
        let (at, known) = *first.get_or_insert((*index, srq));
        if known != srq {
            return wrong(
                "the queue pairs have two shared receive queues, and each uses one of them alone",
                [at, *index],
            );
        }
    }
    if created.len() < 2 {
        let count = created.len();
        return wrong(format!("your program has {count} queue pair(s), for two connections"), []);
    }
    Ok(())
}

/// Where a limit was armed.
fn limits(run: &Run) -> Vec<usize> {
    let calls = run.done(run.student, "ibv_modify_srq").into_iter();
    let armed =
        calls.filter(|(_, call)| arguments::number(&call.args, "srq_limit").unwrap_or(0) > 0);
    armed.map(|(index, _)| index).collect()
}

/// Checks that the limit is low enough for the event not to come with each message.
fn is_limit(run: &Run) -> Verdict {
    for (index, call) in run.done(run.student, "ibv_modify_srq") {
        let limit = arguments::number(&call.args, "srq_limit").unwrap_or(0);
        if limit >= RECEIVES as u64 {
            return wrong(
                format!(
                    "the limit is {limit}, and there are {RECEIVES} receives: fewer are left after each message, so \
                     that each makes an event"
                ),
                [index],
            );
        }
    }
    Ok(())
}

/// Where it was reached.
fn reached(run: &Run) -> Vec<usize> {
    let entries = run.entries.iter().enumerate();
    let is_it =
        |what: &What| matches!(what, What::AsyncEvent { event: EventType::SRQ_LIMIT_REACHED, .. });
    let own = entries.filter(|(_, entry)| entry.process == run.student && is_it(&entry.what));
    own.map(|(index, _)| index).collect()
}

/// The messages that were taken: where each was executed, and the queue pair that it came by.
fn taken(run: &Run) -> Vec<(usize, u32)> {
    let entries = run.entries.iter().enumerate();
    let taken = entries.filter_map(|(index, entry)| match &entry.what {
        What::Executed(Executed { receive: Some(receive), .. }) => Some((index, receive)),
        _ => None,
    });
    let own = taken.filter(|(_, receive)| receive.process == run.student);
    own.map(|(index, receive)| (index, receive.qp)).collect()
}

/// After each event receives are posted and the limit is armed, as long as so many messages are left
/// that both are needed.
fn events(run: &Run) -> Verdict {
    let (receives, limits, taken) = (run.receives(run.student), limits(run), taken(run));
    for event in reached(run) {
        let before = taken.iter().filter(|(index, _)| *index < event).count();
        if before + RECEIVES > MESSAGES {
            continue;
        }
        if !receives.iter().any(|(index, _)| *index > event) {
            return wrong("the limit event has come, and no receive was posted after it", [event]);
        }
        if !limits.iter().any(|index| *index > event) {
            let armed = limits.iter().rev().find(|index| **index < event);
            return wrong(
                "the limit was not armed again after its event: it makes one event, and then it is off",
                armed.copied().into_iter().chain([event]),
            );
        }
    }
    Ok(())
}

/// No message has found the queue empty, and none could have.
fn never_empty(run: &Run) -> Verdict {
    let last = run.sends(run.peer).last().map_or(0, |(index, _)| *index);
    let (mut free, mut messages) = (0i64, 0);
    for (index, entry) in run.entries.iter().enumerate() {
        match &entry.what {
            What::ReceivePosted(posted)
                if entry.process == run.student && matches!(posted.queue, ReceiveQueue::Srq(_)) =>
            {
                free += 1;
            }
            What::Executed(Executed { receive: Some(receive), .. })
                if receive.process == run.student =>
            {
                free -= 1;
                messages += 1;
                if free <= 0 && index < last {
                    return wrong(
                        format!(
                            "the queue was empty after {messages} messages, and more were to come: the \
                             receives are posted too late"
                        ),
                        [index],
                    );
                }
            }
            What::Stalled { reason: Cause::ReceiverNotReady { .. }, .. }
                if entry.process == run.peer =>
            {
                return wrong(
                    "a message has found the queue empty: receiver not ready, it is sent again later",
                    [index],
                );
            }
            _ => {}
        }
    }
    Ok(())
}

/// Each message is answered by the connection that it came by: there is one on its way at a time.
fn answers(run: &Run) -> Verdict {
    let sends = run.sends(run.student);
    for ((message, qp), (answer, send)) in taken(run).into_iter().zip(&sends) {
        if send.qp != qp {
            return wrong(
                format!(
                    "a message came by queue pair {qp}, and its answer went by {}: qp_num of the \
                     completion says which it was",
                    send.qp
                ),
                [message, *answer],
            );
        }
    }
    Ok(())
}
