//! Eight lists, of each of which the last request is signaled and its completion polled.

use soft_hca_verbs::SendFlags;

use crate::facts::Run;
use crate::verdict::{Verdict, wrong};
use crate::words::words;

/// How many.
const LISTS: usize = 8;
/// Requests of each.
const OF_A_LIST: usize = 4;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    // The lists are checked in the first run: a strict run's record does not tell them apart.
    if run.is_strict() {
        return run.sends(run.student).into_iter().try_for_each(|send| run.is_executed(send));
    }
    let lists = run.lists(run.student);
    for list in &lists {
        let entries = list.iter().map(|(index, _)| *index);
        if list.len() != OF_A_LIST {
            let sends = list.len();
            return wrong(
                words!(
                    "a list has {sends} sends, not {OF_A_LIST}",
                    "有一个链表有 {sends} 个发送请求，应该是 {OF_A_LIST} 个"
                ),
                entries,
            );
        }
        let is_signaled: Vec<bool> =
            list.iter().map(|(_, send)| send.flags.contains(SendFlags::SIGNALED)).collect();
        let signaled = is_signaled.iter().filter(|is| **is).count();
        if signaled == 0 {
            return wrong(
                words!(
                    "no send of the list is signaled: nobody can know when it is done, and \
                     its places in the queue never become free",
                    "链表里没有一个发送请求带信号：没有谁能知道它何时做完，\
                     它在队列里占的位置也永远空不出来"
                ),
                entries,
            );
        }
        if signaled > 1 {
            return wrong(
                words!(
                    "{signaled} of the {OF_A_LIST} sends of a list are signaled: one is \
                     enough",
                    "一个链表的 {OF_A_LIST} 个发送请求里有 {signaled} 个带信号：一个就够了"
                ),
                entries,
            );
        }
        if is_signaled.last() != Some(&true) {
            return wrong(
                words!(
                    "the signaled one is not the last of its list: its completion says \
                     nothing of those behind it",
                    "带信号的不是链表的最后一个：它的工作完成说明不了后面的那些"
                ),
                entries,
            );
        }
        list.last().map_or(Ok(()), |last| run.is_complete(*last))?;
    }
    if lists.len() != LISTS {
        return wrong(
            words!(
                "{count} lists were posted, not {LISTS}",
                "提交了 {count} 个链表，应该是 {LISTS} 个",
                count = lists.len()
            ),
            [],
        );
    }
    Ok(())
}
