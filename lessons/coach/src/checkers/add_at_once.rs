//! A counter that others add to as well: each addition is one atomic operation, and its answer is looked
//! at before the next one has the same place.

use std::collections::VecDeque;

use harness::process::Ending;
use soft_hca_record::entry::{SendPosted, Sge};
use soft_hca_verbs::{AccessFlags, SendFlags, WrOpcode};

use crate::facts::{At, Run, access, key};
use crate::steps::{Step, is_received, steps};
use crate::verdict::{Verdict, wrong};
use crate::words::words;

/// How many numbers the program takes.
const NUMBERS: u64 = 1000;
/// Bytes of an atomic operation.
const WORD: u64 = 8;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let sends = run.sends(run.student);
    let of = |opcode| {
        let chosen = sends.iter().filter(|(_, send)| send.opcode == opcode);
        chosen.copied().collect::<Vec<At<'_, SendPosted>>>()
    };
    let (adds, swaps) = (of(WrOpcode::ATOMIC_FETCH_AND_ADD), of(WrOpcode::ATOMIC_CMP_AND_SWP));
    let writes_back = |opcode: WrOpcode| opcode.writes() && !opcode.fetches();
    if let Some(&(written, _)) = sends.iter().find(|(_, send)| writes_back(send.opcode)) {
        let mut before = sends
            .iter()
            .filter(|(index, send)| *index < written && send.opcode == WrOpcode::RDMA_READ);
        return wrong(
            words!(
                "the counter is written back: what another client has added since it was \
                 read is lost",
                "计数器的值被写了回去：从读到写之间，别的客户端加上的数就丢了"
            ),
            before.next_back().map(|(index, _)| *index).into_iter().chain([written]),
        );
    }
    for (index, call) in run.calls(run.student, "ibv_post_send") {
        run.is_done((index, call))?;
    }
    let all = || sends.iter().filter(|(_, send)| send.opcode.fetches());
    for send in all() {
        has_room(run, *send)?;
        run.is_executed(*send)?;
    }
    are_answers_apart(run)?;
    let added: u64 = adds.iter().filter_map(|(_, send)| send.compare_add).sum();
    let tried = added + swaps.len() as u64;
    if swaps.is_empty() && added != NUMBERS || tried < NUMBERS {
        let entries = all().take(1).map(|(index, _)| *index);
        return wrong(
            words!(
                "{tried} was added to the counter, not {NUMBERS}",
                "计数器上加了 {tried}，应该是 {NUMBERS}"
            ),
            entries,
        );
    }
    // A program that tries no more often than it has to does not look, or was never in anybody's way.
    let said = run.peer_said.last().filter(|_| run.peer_end == Some(Ending::Code(1)));
    if let Some(said) = said.filter(|_| !swaps.is_empty() && tried == NUMBERS) {
        return wrong(
            words!(
                "a compare-and-swap that finds another number does not swap, and your \
                 program goes on as if it had: what comes back says what was found \
                 ({said})",
                "比较并交换遇到别的值就不会交换，而你的程序当作已经交换了：\
                 带回来的值说明当时的值是什么（{said}）"
            ),
            swaps.iter().take(2).map(|(index, _)| *index),
        );
    }
    Ok(())
}

/// Can the answer come?
fn has_room(run: &Run, (index, send): At<'_, SendPosted>) -> Verdict {
    for (at, call) in run.done(run.student, "ibv_reg_mr") {
        let is_its = send.sges.iter().any(|sge| Some(sge.lkey) == key(call, "lkey"));
        if is_its && !access(call).contains(AccessFlags::LOCAL_WRITE) {
            return wrong(
                words!(
                    "the region of the answer needs IBV_ACCESS_LOCAL_WRITE: the adapter \
                     writes to it",
                    "放结果的内存区域需要 IBV_ACCESS_LOCAL_WRITE：网卡要往里写"
                ),
                [at, index],
            );
        }
    }
    Ok(())
}

/// Has each its own place for what comes back, until that can be looked at?
fn are_answers_apart(run: &Run) -> Verdict {
    let mut under_way: VecDeque<At<'_, SendPosted>> = VecDeque::new();
    for step in steps(run, run.student) {
        match step {
            Step::Posted(index, send) => {
                let is_there = |(_, other): &&At<'_, SendPosted>| {
                    other.opcode.fetches() && is_shared(&other.sges, &send.sges)
                };
                let other = under_way.iter().find(is_there).filter(|_| send.opcode.fetches());
                if let Some((other, _)) = other {
                    return wrong(
                        words!(
                            "two operations are under way whose answers come into the same \
                             place, and the program can see one of them only",
                            "有两个操作正在进行，它们的结果会放到同一处，程序只能看到其中一个"
                        ),
                        [*other, index],
                    );
                }
                under_way.push_back((index, send));
            }
            Step::Polled { completion, .. } if !is_received(completion) => {
                // It speaks for those before it that are not signaled, too.
                let is_signaled =
                    |(_, send): &At<'_, SendPosted>| send.flags.contains(SendFlags::SIGNALED);
                let signaled = under_way.iter().position(is_signaled);
                under_way.drain(..signaled.map_or(0, |at| at + 1));
            }
            Step::Polled { .. } => {}
        }
    }
    let unseen = under_way.iter().find(|(_, send)| send.opcode.fetches());
    if let Some((index, _)) = unseen.filter(|_| !run.is_stopped()) {
        return wrong(
            words!(
                "nobody has polled a completion that says that the answer is there",
                "没有取走能说明结果已经到来的工作完成"
            ),
            [*index],
        );
    }
    Ok(())
}

/// Do the first eight bytes of two lists share any?
fn is_shared(one: &[Sge], other: &[Sge]) -> bool {
    let (Some(one), Some(other)) = (one.first(), other.first()) else { return false };
    one.address < other.address + WORD && other.address < one.address + WORD
}
