//! As many messages at a time as the receiver has told of receives, and never one more.

use std::collections::VecDeque;

use soft_hca_record::entry::What;
use soft_hca_verbs::{Cause, SendFlags};

use crate::facts::Run;
use crate::steps::{Step, is_received, steps};
use crate::verdict::{Verdict, Wrong, wrong};
use crate::words::words;

/// How many the program sends.
const MESSAGES: u64 = 100;

/// More messages than this beyond the credits are more than a miscount.
const MANY: usize = 4;

/// The program's knowledge at a step.
#[derive(Debug, Default)]
struct Known {
    /// Messages that were posted.
    posted: u64,
    /// Receives that the peer has told of.
    told: u64,
    /// Messages that no polled completion speaks for, by their index, and whether they are signaled.
    under_way: VecDeque<(usize, bool)>,
    /// The poll that has given the last credits.
    credits: Option<usize>,
}

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let sends = run.sends(run.student);
    if sends.is_empty() {
        return wrong(words!("nothing was sent", "什么也没有发送"), []);
    }
    let accepted = run.calls(run.peer, "rdma_accept").first().map_or(0, |(index, _)| *index);
    let receives = run.receives(run.peer);
    let first = receives.iter().filter(|(index, _)| *index < accepted).count() as u64;
    let mut known = Known { told: first, ..Known::default() };
    let mut most = 0;
    let steps = steps(run, run.student);
    for (at, step) in steps.iter().enumerate() {
        known.goes_on(run, *step).map_err(|wrong| known.explained(wrong, &steps[at..]))?;
        most = most.max(known.under_way.len() as u64);
    }
    are_credits_taken(run)?;
    run.all_went_well(run.student)?;
    let Known { posted, told, credits, .. } = known;
    if posted != MESSAGES {
        return wrong(
            words!(
                "{posted} messages were sent, not {MESSAGES}",
                "发送了 {posted} 条消息，应该是 {MESSAGES} 条"
            ),
            [],
        );
    }
    if most < first {
        return wrong(
            words!(
                "at no time more than {most} of your sends are posted and not completed, \
                 and the server has {first} receives: post as many as you have credits \
                 for before you look for completions",
                "你提交了而未完成的发送请求从没有超过 {most} 个，\
                 而服务端有 {first} 个接收请求：先按信用全部提交，再去看工作完成"
            ),
            sends.iter().take(2).map(|(index, _)| *index),
        );
    }
    let back = told - first;
    if back != posted {
        return wrong(
            words!(
                "the last credits were not waited for: {posted} messages were sent, and \
                 credits for {back} of them have come",
                "没有等最后的信用：发送了 {posted} 条消息，只等到了 {back} 条的信用"
            ),
            [credits, sends.last().map(|(index, _)| *index)].into_iter().flatten(),
        );
    }
    Ok(())
}

impl Known {
    /// Adds a hint to the verdict about too many messages if many more follow: a small number of
    /// credits that is read in the wrong byte order is a huge one.
    fn explained(&self, mut wrong: Wrong, ahead: &[Step<'_>]) -> Wrong {
        let is_credits = |step: &&Step<'_>| match step {
            Step::Polled { completion, .. } => is_received(completion),
            Step::Posted(..) => false,
        };
        let until = ahead.iter().position(|step| is_credits(&step)).unwrap_or(ahead.len());
        let posted = ahead[..until].iter().filter(|step| matches!(step, Step::Posted(..))).count();
        if self.credits.is_some() && self.posted > self.told && posted > MANY {
            let what = wrong.what;
            wrong.what = words!(
                "{what}: are the immediate data read in network byte order?",
                "{what}：立即数是按网络字节序读的吗？",
                [what]
            );
        }
        wrong
    }

    fn goes_on(&mut self, run: &Run, step: Step<'_>) -> Verdict {
        match step {
            Step::Posted(index, send) => {
                self.posted += 1;
                let is_signaled = send.flags.contains(SendFlags::SIGNALED);
                self.under_way.push_back((index, is_signaled));
                let (posted, told) = (self.posted, self.told);
                if posted > told {
                    // It may have been lucky, and have met a receive that was not told of yet.
                    let stalled = run.request(index).stalled();
                    return wrong(
                        words!(
                            "message {posted} was posted when the server had told of \
                             {told} receives",
                            "提交第 {posted} 条消息时，服务端只通报了 {told} 个接收请求"
                        ),
                        [self.credits, Some(index), stalled].into_iter().flatten(),
                    );
                }
            }
            Step::Polled { index, completion, in_vain } => {
                let credits = self.told.saturating_sub(self.posted);
                let is_idle = self.under_way.is_empty() && self.posted < MESSAGES;
                // A program that only drains the queue goes on after the first poll in vain; in a
                // strict run a poll may find nothing although there is a completion.
                if in_vain && is_idle && credits > 0 && !run.is_strict() {
                    return wrong(
                        words!(
                            "your program waits although it has {credits} credits, \
                             messages left and nothing under way",
                            "你的程序在等，可它还有 {credits} 个信用，有消息要发，\
                             也没有请求在进行"
                        ),
                        self.credits.into_iter().chain([index]),
                    );
                }
                if is_received(completion) {
                    self.told += u64::from(completion.imm.unwrap_or_default());
                    self.credits = Some(index);
                } else {
                    // It speaks for those before it that are not signaled, too.
                    let signaled = self.under_way.iter().position(|(_, is_signaled)| *is_signaled);
                    self.under_way.drain(..signaled.map_or(0, |at| at + 1));
                }
            }
        }
        Ok(())
    }
}

/// Has each of the peer's messages found a receive?
fn are_credits_taken(run: &Run) -> Verdict {
    for (index, _) in run.sends(run.peer) {
        let Some(stalled) = run.request(index).stalled() else { continue };
        let What::Stalled { reason, .. } = &run.entries[stalled].what else { continue };
        if matches!(reason, Cause::ReceiverNotReady { .. }) {
            return wrong(
                words!(
                    "the server's message with credits found no receive: one that was used \
                     has to be posted again, before its credits are",
                    "服务端送信用的消息没有遇上接收请求：用掉的接收请求要重新提交，\
                     而且要在使用它送来的信用之前"
                ),
                [index, stalled],
            );
        }
    }
    Ok(())
}
