//! The program sleeps while there is nothing: the queue is armed before each sleep, looked at after each
//! arming, and every event acknowledged.

use std::time::Duration;

use soft_hca_record::entry::{Channel, What};

use crate::facts::Run;
use crate::verdict::{Verdict, Wrong, wrong};
use crate::words::words;

/// A pause that is long enough for a program to arm the queue and poll it.
const PAUSE: Duration = Duration::from_millis(30);
/// More polls that find nothing are not those of a program that sleeps: each event has one, and some more
/// for a program that looks again.
const POLLS: u64 = 200;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    is_armed(run)?;
    let arms = run.done(run.student, "ibv_req_notify_cq");
    if arms.is_empty() {
        let vain = vain_polls(run);
        return wrong(
            words!(
                "your program never sleeps: it polls {vain} times in vain, and arms nothing",
                "你的程序从不睡眠：它空轮询了 {vain} 次，也没有请求通知"
            ),
            [],
        );
    }
    polls_seldom(run, POLLS)?;
    let arms: Vec<usize> = arms.iter().map(|(index, _)| *index).collect();
    // A program that waits with a time limit gets a completion without an event, too, only later.
    sleeps_well(run, &arms)?;
    is_acknowledged(run)
}

/// Checks that at most this many polls have found nothing.
pub fn polls_seldom(run: &Run, most: u64) -> Verdict {
    let vain = vain_polls(run);
    if vain <= most {
        return Ok(());
    }
    let entries = run.entries.iter().enumerate().filter(|(_, entry)| entry.process == run.student);
    let mut waits = entries
        .filter(|(_, entry)| matches!(entry.what, What::Wait { on: Channel::Completion, .. }));
    match waits.next() {
        Some((wait, _)) => wrong(
            words!(
                "your program polls {vain} times in vain, although it sleeps at times: \
                 behind an event it has to poll until nothing is left, and then to sleep \
                 again",
                "你的程序有时睡眠，却仍空轮询了 {vain} 次：得到事件以后，\
                 要轮询到什么也没有为止，然后再睡"
            ),
            [wait],
        ),
        None => wrong(
            words!(
                "your program polls {vain} times in vain: it does not sleep, or not \
                 until something has come",
                "你的程序空轮询了 {vain} 次：它不睡眠，或者没有睡到有东西到来"
            ),
            [],
        ),
    }
}

/// Were all events of the queue acknowledged when it was destroyed?
pub fn is_acknowledged(run: &Run) -> Verdict {
    for (index, call) in run.calls(run.student, "ibv_destroy_cq") {
        if call.unacknowledged > 0 {
            let events = call.unacknowledged;
            return wrong(
                words!(
                    "{events} events are not acknowledged, and ibv_destroy_cq waits \
                     until they are",
                    "有 {events} 个事件没有确认，ibv_destroy_cq 会一直等到它们都得到确认"
                ),
                [index],
            );
        }
    }
    Ok(())
}

/// So many of the program's polls have found nothing.
fn vain_polls(run: &Run) -> u64 {
    let own = run.entries.iter().filter(|entry| entry.process == run.student);
    let vain = own.map(|entry| match &entry.what {
        What::Polled(polled) => polled.empty.map_or(0, |empty| empty.count),
        _ => 0,
    });
    vain.sum()
}

/// Was the queue armed whenever the program went to sleep?
pub fn is_armed(run: &Run) -> Verdict {
    let (mut armed, mut spent, mut asleep) = (false, false, None);
    for (index, entry) in run.entries.iter().enumerate() {
        if entry.process != run.student {
            continue;
        }
        match &entry.what {
            What::Call(call) if call.name == "ibv_req_notify_cq" => (armed, spent) = (true, false),
            // An event that is there already is fetched without a wait, and is not in the record.
            What::Completion(_) => spent = armed,
            What::Woken { on: Channel::Completion, event: true, .. } => {
                (armed, spent, asleep) = (false, false, None);
            }
            What::Wait { on: Channel::Completion, .. } if !armed => return unarmed(index),
            // The event may be on its way.
            What::Wait { on: Channel::Completion, .. } if spent => asleep = Some(index),
            _ => {}
        }
    }
    asleep.map_or(Ok(()), unarmed)
}

fn unarmed(wait: usize) -> Verdict {
    wrong(
        words!(
            "your program waits for an event of a queue that is not armed: ibv_req_notify_cq \
             arms it for one event",
            "你的程序在等一个没有请求通知的队列的事件：调用一次 ibv_req_notify_cq，\
             只请求一个事件"
        ),
        [wait],
    )
}

/// The queue was not armed when a completion came, which therefore made no event.
pub fn not_armed_again(entries: Vec<usize>) -> Wrong {
    let what = words!(
        "the queue is not armed again after an event: ibv_req_notify_cq arms it for one, and \
         what comes later makes none",
        "得到事件以后没有重新请求通知：调用一次 ibv_req_notify_cq，只请求一个事件，\
         后来的不再产生事件"
    );
    Wrong { what, entries }
}

/// The queue was armed, and not polled after that.
pub fn not_after_arming(entries: Vec<usize>) -> Wrong {
    let what = words!(
        "what is in the queue when it is armed makes no event: poll after arming, until \
         nothing is left, and then sleep",
        "请求通知时已经在队列里的，不产生事件：请求通知以后，要轮询到什么也没有为止，然后再睡"
    );
    Wrong { what, entries }
}

/// Is the queue armed when a completion comes after a pause, and was it polled since it was armed?
/// A program that does neither or only one was woken by something else, or was lucky.
pub fn sleeps_well(run: &Run, arms: &[usize]) -> Verdict {
    let polls = polls(run);
    let (mut pauses, mut unarmed, mut unpolled) = (0, Vec::new(), Vec::new());
    let mut last = 0;
    for (next, _) in run.completions(run.student) {
        let (before, came) = (run.entries[last].t, run.entries[next].t);
        if Duration::from_nanos(came.saturating_sub(before)) >= PAUSE {
            pauses += 1;
            match arms.iter().rfind(|arm| (last..next).contains(*arm)) {
                None => unarmed.push(made_no_event(run, arms, next)),
                Some(arm) => {
                    let armed = run.entries[*arm].t;
                    if !polls.iter().any(|t| (armed..came).contains(t)) {
                        unpolled.push([*arm, next]);
                    }
                }
            }
        }
        last = next;
    }
    // A busy machine may put the program aside before it arms or polls, but not in most of the
    // pauses.
    match (unarmed.first(), unpolled.first()) {
        (Some(first), _) if 2 * unarmed.len() > pauses => Err(not_armed_again(first.clone())),
        (_, Some(first)) if 2 * unpolled.len() > pauses => Err(not_after_arming(first.to_vec())),
        _ => Ok(()),
    }
}

/// Why a completion makes no event: the last arming before it, and the completion that used it up.
fn made_no_event(run: &Run, arms: &[usize], completion: usize) -> Vec<usize> {
    let arm = arms.iter().rfind(|arm| **arm < completion).copied();
    let completions = run.completions(run.student).into_iter().map(|(index, _)| index);
    let spent = arm.and_then(|arm| completions.clone().find(|index| *index > arm));
    arm.into_iter().chain(spent.filter(|spent| *spent < completion)).chain([completion]).collect()
}

/// The times of the program's polls; of a row of polls in vain only the first and the last.
fn polls(run: &Run) -> Vec<u64> {
    let own = run.entries.iter().filter(|entry| entry.process == run.student);
    let times = own.filter_map(|entry| match &entry.what {
        What::Polled(polled) => {
            let found = (polled.found > 0).then_some(entry.t);
            Some([
                found,
                polled.empty.map(|empty| empty.first),
                polled.empty.map(|empty| empty.last),
            ])
        }
        _ => None,
    });
    times.flatten().flatten().collect()
}
