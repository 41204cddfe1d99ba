//! Two queue pairs take their receives from one queue, whose limit is armed, and which is filled again
//! whenever the limit is reached and before it is empty.

use soft_hca_record::arguments;
use soft_hca_record::entry::{Executed, ReceiveQueue, What};
use soft_hca_verbs::{Cause, EventType};

use crate::facts::Run;
use crate::verdict::{Verdict, wrong};
use crate::words::words;

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
        return wrong(
            words!(
                "no receive was posted to the shared receive queue",
                "没有向共享接收队列提交接收请求"
            ),
            [],
        );
    }
    if limits(run).is_empty() {
        return wrong(
            words!(
                "no limit was armed: ibv_modify_srq with IBV_SRQ_LIMIT does that, and \
                 nothing tells before that few receives are left",
                "没有设置阈值：要用 ibv_modify_srq 和 IBV_SRQ_LIMIT 来设，在那以前，\
                 接收请求快用完了也没有谁告知"
            ),
            [],
        );
    }
    is_limit(run)?;
    events(run)?;
    never_empty(run)?;
    answers(run)?;
    if reached(run).is_empty() {
        return wrong(
            words!(
                "the limit was never reached: your program posts receives before the event \
                 says that few are left",
                "一直没有降到阈值以下：事件还没有说所剩不多，你的程序就提交了接收请求"
            ),
            [],
        );
    }
    let (messages, answers) = (run.sends(run.peer).len(), run.sends(run.student).len());
    if answers != messages {
        return wrong(
            words!(
                "{messages} messages were sent, and {answers} answers",
                "发来了 {messages} 条消息，只发出了 {answers} 个回答"
            ),
            [],
        );
    }
    Ok(())
}

/// Each queue pair has the one shared receive queue.
fn queues(run: &Run) -> Verdict {
    let created = run.done(run.student, "ibv_create_qp");
    let mut first = None;
    for (index, call) in &created {
        let Some(srq) = arguments::srq(&call.args, "srq") else {
            return wrong(
                words!(
                    "a queue pair has a receive queue of its own",
                    "有一个队列对用的是自己的接收队列"
                ),
                [*index],
            );
        };
        let (at, known) = *first.get_or_insert((*index, srq));
        if known != srq {
            return wrong(
                words!(
                    "the queue pairs have two shared receive queues, and each uses one of \
                     them alone",
                    "两个队列对有两个共享接收队列，各自独用一个"
                ),
                [at, *index],
            );
        }
    }
    if created.len() < 2 {
        let count = created.len();
        return wrong(
            words!(
                "your program has {count} queue pair(s), for two connections",
                "要有两个连接，而你的程序有 {count} 个队列对"
            ),
            [],
        );
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
                words!(
                    "the limit is {limit}, and there are {RECEIVES} receives: fewer are \
                     left after each message, so that each makes an event",
                    "阈值是 {limit}，而接收请求有 {RECEIVES} 个：\
                     每条消息之后剩下的都少于它，每条消息都会产生事件"
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
            return wrong(
                words!(
                    "the limit event has come, and no receive was posted after it",
                    "阈值的事件已经来了，之后却没有提交接收请求"
                ),
                [event],
            );
        }
        if !limits.iter().any(|index| *index > event) {
            let armed = limits.iter().rev().find(|index| **index < event);
            return wrong(
                words!(
                    "the limit was not armed again after its event: it makes one event, and \
                     then it is off",
                    "阈值的事件来过之后，没有重新设置阈值：它只产生一次事件，然后就失效"
                ),
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
                        words!(
                            "the queue was empty after {messages} messages, and more \
                             were to come: the receives are posted too late",
                            "{messages} 条消息之后队列就空了，而后面还有消息：\
                             接收请求提交得太晚"
                        ),
                        [index],
                    );
                }
            }
            What::Stalled { reason: Cause::ReceiverNotReady { .. }, .. }
                if entry.process == run.peer =>
            {
                return wrong(
                    words!(
                        "a message has found the queue empty: receiver not ready, it is sent \
                         again later",
                        "有一条消息遇上了空队列：接收方未就绪，它稍后会重发"
                    ),
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
                words!(
                    "a message came by queue pair {qp}, and its answer went by {other}: \
                     qp_num of the completion says which it was",
                    "有一条消息从队列对 {qp} 来，回答却从 {other} 发出：\
                     工作完成的 qp_num 说明是哪一个",
                    other = send.qp
                ),
                [message, *answer],
            );
        }
    }
    Ok(())
}
