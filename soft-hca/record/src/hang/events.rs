//! Why a completion channel gives no event.

use super::moment::{HANG_NS, Moment, Verdict};
use crate::model::{Armed, CompletionQueue};
use crate::words::times;

const NEVER: &str = "ibv_req_notify_cq is missing before the wait";
const AGAIN: &str = "ibv_req_notify_cq arms for one event: call it again after each one, and then poll \
                     the queue until it is empty";
const UNARMED: &str = "ibv_req_notify_cq is missing: it arms for one event, so it is called before the \
                       wait and again after each event";

impl Moment<'_> {
    /// Why the completion channel with a descriptor gives no event to a process that waits there.
    pub(super) fn no_event(&self, process: u32, fd: u32) -> Verdict {
        let reports = |cq: &CompletionQueue| cq.process == process && cq.channel == Some(fd);
        let all: Vec<_> = self.run.cqs.iter().filter(|(_, cq)| reports(cq)).collect();
        // Those of before the record are not known.
        if !self.run.processes.get(&process).is_some_and(|known| known.channels.contains(&fd)) {
            return None;
        }
        if all.is_empty() {
            let why = "no completion queue reports to this channel".into();
            return Some((why, "ibv_create_cq was given another channel, or none"));
        }
        let is_unheard = |cq: &CompletionQueue| cq.waiting() > 0 && !cq.has_event;
        let knows_polls = self.run.is_hooked(process);
        if let Some((number, cq)) = all.iter().find(|(_, cq)| knows_polls && is_unheard(cq)) {
            return Some(self.unheard(**number, cq));
        }
        let is_silent = |cq: &CompletionQueue| match cq.armed {
            Armed::Never | Armed::No => !cq.has_event,
            Armed::Spent { .. } => {
                cq.event.is_some_and(|event| self.t.saturating_sub(event) >= HANG_NS)
            }
            Armed::Yes { .. } => false,
        };
        if all.iter().all(|(_, cq)| is_silent(cq)) {
            let (number, cq) = all[0];
            let (state, cause) = match cq.armed {
                Armed::Spent { t } => (
                    format!(
                        "was armed {}, which has given its event{}, and not again since",
                        self.ago(t),
                        self.since(" ", cq.event)
                    ),
                    AGAIN,
                ),
                Armed::No => ("is not armed".into(), UNARMED),
                _ => ("was never armed".into(), NEVER),
            };
            let others = match all.len() - 1 {
                0 => String::new(),
                more => format!(", nor were the {more} others of this channel"),
            };
            let why =
                format!("cq {number} {state}{others}: no completion, if one comes, gives an event");
            return Some((why, cause));
        }
        // Each has to be explained.
        let verdicts: Option<Vec<_>> =
            all.iter().map(|(number, _)| self.nothing_comes(**number)).collect();
        verdicts?.into_iter().next()
    }

    /// Completions that are there, and of which no event tells.
    fn unheard(&self, number: u32, cq: &CompletionQueue) -> (String, &'static str) {
        let waiting = cq.waiting();
        let have = if waiting == 1 { "has come" } else { "have come" };
        let completions = times(waiting, "completion", "completions");
        let last = self.since(", the last ", cq.last);
        match cq.armed {
            Armed::Never => {
                let why =
                    format!("{completions} {have} in cq {number}{last}, and it was never armed");
                (why, NEVER)
            }
            Armed::No => {
                let why = format!("{completions} {have} in cq {number}{last}, and it is not armed");
                (why, UNARMED)
            }
            Armed::Spent { t } => {
                let why = format!(
                    "cq {number} was armed {}, which has given its event{}; {completions} of it {} not \
                     polled, and it was not armed again",
                    self.ago(t),
                    self.since(" ", cq.event),
                    if waiting == 1 { "is" } else { "are" },
                );
                (why, AGAIN)
            }
            Armed::Yes { t, solicited_only: true } if t.is_none_or(|t| cq.last >= Some(t)) => {
                let why = format!(
                    "{completions} {have} in cq {number}{last}, and it is armed for solicited \
                     ones only"
                );
                let cause = "the peer posts its sends without IBV_SEND_SOLICITED: set it there, or call \
                             ibv_req_notify_cq with solicited_only 0";
                (why, cause)
            }
            Armed::Yes { t, .. } => {
                let why = format!(
                    "cq {number} was armed{}, after its {completions} had come{last}, and gives \
                     an event for the next one only",
                    self.since(" ", t)
                );
                let cause = "a completion that comes before ibv_req_notify_cq gives no event: poll once \
                             more after arming, and wait only if nothing was found";
                (why, cause)
            }
        }
    }
}
