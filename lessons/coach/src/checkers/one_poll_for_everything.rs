//! One thread serves messages and the end of the connection, and waits for both in one place. The record
//! does not see `poll(2)`; it sees who waits elsewhere, which completions nobody takes, and when the queue is
//! armed.

use soft_hca_record::entry::{Channel, What};
use soft_hca_verbs::{CmEvent, WcOpcode, WcStatus};

use crate::checkers::sleep_without_losing::{
    is_acknowledged, not_after_arming, not_armed_again, polls_seldom, sleeps_well,
};
use crate::facts::Run;
use crate::verdict::{Verdict, wrong};
use crate::words::words;

/// More polls that find nothing are not those of a program that sleeps. There are twenty calls, so its polls in
/// vain after each event are fewer, even if it is woken for each completion.
const POLLS: u64 = 120;
/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    has_one_thread(run)?;
    never_waits_for_one(run)?;
    let arms = run.done(run.student, "ibv_req_notify_cq");
    polls_seldom(run, POLLS)?;
    let arms: Vec<usize> = arms.iter().map(|(index, _)| *index).collect();
    if arms.is_empty() {
        return wrong(
            words!(
                "ibv_req_notify_cq was not called: a queue that is not armed makes no event",
                "没有调用 ibv_req_notify_cq：没有请求通知的队列不产生事件"
            ),
            [],
        );
    }
    let disconnected = fetched(run, CmEvent::DISCONNECTED);
    if disconnected.is_none() && !run.is_stopped() {
        return wrong(
            words!(
                "your program ends before its client has hung up",
                "客户端还没有断开，你的程序就结束了"
            ),
            run.end(run.student),
        );
    }
    nothing_is_left(run, &arms)?;
    if disconnected.is_none() {
        let hung_up = run.calls(run.peer, "rdma_disconnect");
        return wrong(
            words!(
                "RDMA_CM_EVENT_DISCONNECTED was never fetched: the client has hung up, and \
                 nobody looks at the event channel",
                "一直没有取 RDMA_CM_EVENT_DISCONNECTED：客户端已经断开，却没有谁去看事件通道"
            ),
            hung_up.first().map(|(index, _)| *index),
        );
    }
    sleeps_well(run, &arms)?;
    is_acknowledged(run)
}

/// When an event of the connection manager was fetched.
fn fetched(run: &Run, wanted: CmEvent) -> Option<usize> {
    let events = run.connection_events(run.student);
    events.iter().find(|(_, event)| event.event == wanted).map(|(index, _)| *index)
}

/// While the program waits at one channel it does not see the other.
fn never_waits_for_one(run: &Run) -> Verdict {
    // The connection may be waited for; there are no messages before.
    let established = fetched(run, CmEvent::ESTABLISHED).unwrap_or(usize::MAX);
    let over = fetched(run, CmEvent::DISCONNECTED).unwrap_or(usize::MAX);
    for (index, entry) in run.entries.iter().enumerate().take(over) {
        let What::Wait { on, .. } = &entry.what else { continue };
        let (call, other) = match on {
            Channel::Completion => {
                ("ibv_get_cq_event", words!("the connection's events", "连接的事件"))
            }
            Channel::Connection if index > established => {
                ("rdma_get_cm_event", words!("messages", "消息"))
            }
            _ => continue,
        };
        if entry.process == run.student {
            return wrong(
                words!(
                    "your program waits in {call}, and does not see {other} meanwhile",
                    "你的程序等在 {call} 里，这时看不到{other}",
                    [other]
                ),
                [index],
            );
        }
    }
    Ok(())
}

/// Every message's completion was polled. If not, why nobody was woken for it.
fn nothing_is_left(run: &Run, arms: &[usize]) -> Verdict {
    let completions = run.completions(run.student);
    let is_left = |index: usize| run.polled(index).is_none();
    let mut messages = completions
        .iter()
        .filter(|(_, completion)| completion.opcode == WcOpcode::RECV && !is_failed(completion));
    let Some((left, of)) = messages.find(|(index, _)| is_left(*index)) else { return Ok(()) };
    let last_arm = arms.last().unwrap_or(&0);
    if left < last_arm {
        return Err(not_after_arming(vec![*left, *last_arm]));
    }
    let first = completions.iter().find(|(index, other)| index > last_arm && other.cq == of.cq);
    match first {
        Some((first, _)) if !is_left(*first) => {
            Err(not_armed_again(vec![*last_arm, *first, *left]))
        }
        _ => wrong(
            words!(
                "a message has come and made an event, and nobody looks at the completion \
                 channel",
                "消息来了，也产生了事件，却没有谁去看完成通道"
            ),
            [*last_arm, *left],
        ),
    }
}

fn is_failed(completion: &soft_hca_record::entry::Completion) -> bool {
    completion.status != WcStatus::SUCCESS
}

fn has_one_thread(run: &Run) -> Verdict {
    let of_student = run.entries.iter().enumerate();
    let mut of_student = of_student.filter_map(|(index, entry)| {
        let thread = entry.thread.filter(|_| entry.process == run.student && entry.by.is_none())?;
        Some((index, thread))
    });
    let Some((_, first)) = of_student.next() else { return Ok(()) };
    match of_student.find(|(_, thread)| *thread != first) {
        Some((index, _)) => wrong(
            words!(
                "your program has a second thread, and one is enough",
                "你的程序有第二个线程；一个就够了"
            ),
            [index],
        ),
        None => Ok(()),
    }
}
