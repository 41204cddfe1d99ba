//! The program sleeps while there is nothing: the queue is armed before each sleep, looked at after each
//! arming, and every event acknowledged.

use soft_hca_record::entry::{Channel, What};

use crate::facts::Run;
use crate::verdict::{Verdict, wrong};

/// More polls that find nothing are not those of a program that sleeps: each event has one, and some more
/// for a program that looks again.
const POLLS: u64 = 200;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    is_armed(run)?;
    let vain = vain_polls(run);
    if run.calls(run.student, "ibv_req_notify_cq").is_empty() {
        return wrong(
            format!("your program never sleeps: it polls {vain} times in vain, and arms nothing"),
            [],
        );
    }
    if vain > POLLS {
        return wrong(format!("your program polls {vain} times in vain: it does not sleep"), []);
    }
    is_acknowledged(run)
}

/// Were all events of the queue acknowledged when it was destroyed?
pub fn is_acknowledged(run: &Run) -> Verdict {
    for (index, call) in run.calls(run.student, "ibv_destroy_cq") {
        if call.unacknowledged > 0 {
            let events = call.unacknowledged;
            return wrong(
                format!(
                    "{events} events are not acknowledged, and ibv_destroy_cq waits until they are"
                ),
                [index],
            );
        }
    }
    Ok(())
}

/// So many of the program's polls have found nothing.
pub fn vain_polls(run: &Run) -> u64 {
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
        "your program waits for an event of a queue that is not armed: ibv_req_notify_cq arms it for one event",
        [wait],
    )
}
