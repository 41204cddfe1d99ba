//! The peer dies, and the program ends soon after that: neither before it, nor by waiting long enough, nor
//! never.

use std::time::Duration;

use harness::process::Ending;
use soft_hca_record::entry::{Channel, What};
use soft_hca_verbs::CmEvent;

use crate::checkers::sleep_without_losing::is_acknowledged;
use crate::facts::Run;
use crate::verdict::{Verdict, wrong};
use crate::words::words;

/// The task says a second; a busy machine may take longer for what follows from it.
const SOON: Duration = Duration::from_millis(1500);

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let ended = run.end(run.student);
    let death = run.end(run.peer).filter(|_| matches!(run.peer_end, Some(Ending::Signal(_))));
    let Some(died) = death else {
        let hung_up = run.calls(run.student, "rdma_disconnect").first().map(|(index, _)| *index);
        let gave_up = hung_up.or(ended).filter(|_| !run.is_stopped());
        if let Some(at) = gave_up.filter(|at| run.end(run.peer).is_none_or(|end| *at < end)) {
            return wrong(
                words!(
                    "your program gives up while its peer is alive",
                    "对端还活着，你的程序就放弃了"
                ),
                [at],
            );
        }
        // A peer that does not come to its death tells itself what the program has done to it.
        return Ok(());
    };
    if run.student_end == Some(Ending::TimedOut) {
        is_acknowledged(run)?;
        return hangs(run, died);
    }
    let (death, end) = (run.entries[died].t, ended.map_or(0, |index| run.entries[index].t));
    let after = Duration::from_nanos(end.saturating_sub(death));
    if after > SOON {
        let seconds = after.as_secs_f64();
        return wrong(
            words!(
                "your program ended {seconds:.1} s after its peer had died: the \
                 connection manager tells at once",
                "对端死后 {seconds:.1} 秒，你的程序才结束：连接管理器是立刻就告知的"
            ),
            [Some(died), ended].into_iter().flatten(),
        );
    }
    Ok(())
}

/// The wait or loop in which the program stays for ever instead of ending.
fn hangs(run: &Run, died: usize) -> Verdict {
    let of_student = run.entries.iter().enumerate().rev();
    let mut of_student = of_student.filter(|(_, entry)| {
        entry.process == run.student
            && matches!(entry.what, What::Wait { .. } | What::Woken { .. } | What::Polled(_))
    });
    let last = of_student.next().map(|(index, entry)| (index, &entry.what));
    let events = run.connection_events(run.student);
    let told = events.iter().find(|(_, event)| event.event == CmEvent::DISCONNECTED);
    match (told, last) {
        (Some((told, _)), _) => wrong(
            words!(
                "your program has fetched RDMA_CM_EVENT_DISCONNECTED, and does not end all \
                 the same",
                "你的程序取到了 RDMA_CM_EVENT_DISCONNECTED，却仍然不结束"
            ),
            [died, *told],
        ),
        (None, Some((at, What::Wait { on: Channel::Completion, .. }))) => wrong(
            words!(
                "your program sleeps in ibv_get_cq_event, and its peer is dead: that makes \
                 no completion, but RDMA_CM_EVENT_DISCONNECTED at the event channel",
                "你的程序睡在 ibv_get_cq_event 里，而对端已经死了：这不会产生工作完成，\
                 只会在事件通道上产生 RDMA_CM_EVENT_DISCONNECTED"
            ),
            [at, died],
        ),
        (None, at) => wrong(
            words!(
                "your program does not end, and its peer is dead: it has never fetched \
                 RDMA_CM_EVENT_DISCONNECTED",
                "对端已经死了，你的程序却不结束：它一直没有取 RDMA_CM_EVENT_DISCONNECTED"
            ),
            at.map(|(index, _)| index).into_iter().chain([died]),
        ),
    }
}
