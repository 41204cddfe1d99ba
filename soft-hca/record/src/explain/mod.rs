//! Explains problems of a run in words for readers who do not know RDMA by heart: which call, which side,
//! which check with the values compared, and what usually causes it.

mod evidence;
#[cfg(test)]
mod hang_tests;
mod live;
mod order;
mod problem;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use soft_hca_verbs::cause::{Cause, Side};
use soft_hca_verbs::{ErrorNumber, EventType, WcStatus};

use crate::cause::sentence;
use crate::connection;
use crate::entry::{Call, Completion, ConnectionEvent, Entry, Executed, Outcome, What};
use crate::hang::{Hang, Moment};
use crate::model::{Effect, Run, STALL_NS, Stalled, Stop, Stopped, Thread, Unfinished};
use crate::time::duration;
use crate::usual::{asynchronous, call_cause, side, status_meaning, usual_cause};
use crate::value::{Name, Value};
use crate::words::compared;
use problem::{About, Role};

pub use live::Live;
pub use problem::Problem;

/// A request that another host has not acknowledged for less, in nanoseconds, may just be on its way.
const ANSWER_NS: u64 = 100_000_000;

/// Finds what went wrong in a record, entry after entry.
#[derive(Debug, Default)]
pub struct Explainer {
    run: Run,
    /// Send work requests that have failed: their completions say nothing new.
    failed: HashSet<(u32, u64)>,
    /// Threads that are blocked, and since when, that were reported.
    reported_threads: HashSet<(Thread, u64)>,
    /// Requests that wait, by queue pair and name, and since when, that were reported.
    reported_requests: HashSet<(u32, u64, u64)>,
    /// Entries are missing, be it further on: a blocked thread may have gone on.
    is_partial: bool,
}

impl Explainer {
    /// At the beginning of a record.
    pub fn new() -> Self {
        Self::default()
    }

    fn who(&self, process: u32) -> String {
        self.run.name(process)
    }

    /// The problems that an entry shows.
    pub fn problems(&mut self, entry: &Entry) -> Vec<Problem> {
        let effect = self.run.entry(entry);
        let source = effect.source.clone();
        let mut problems = self.found(entry, effect);
        for problem in problems.iter_mut().filter(|problem| problem.source.is_none()) {
            problem.source.clone_from(&source);
        }
        problems
    }

    fn found(&mut self, entry: &Entry, effect: Effect) -> Vec<Problem> {
        if let What::ProcessEnded { exit_by, .. } = &entry.what {
            let end = match exit_by {
                None => "its process was killed",
                Some(_) => "its process ended",
            };
            let mut problems = self.blocked_until(entry, *exit_by, end);
            problems.extend(self.stopped(entry.t, effect.stopped));
            return problems;
        }
        if !effect.stopped.is_empty() {
            return self.stopped(entry.t, effect.stopped);
        }
        let found = match &entry.what {
            What::Call(call) => self.call(entry, call),
            What::ConnectionEvent(event) => self.connection_event(entry, event),
            What::Executed(executed) => self.executed(entry, executed),
            What::Completion(completion) => self.completion(entry, completion, &effect),
            What::AsyncEvent { event, element: Some(element), .. } => {
                self.asynchronous(entry, *event, element)
            }
            What::Dropped { entries } => {
                let what = format!("{entries} entries are missing");
                let why = "the process has traced more at a time than could be read".into();
                let cause = "messages that come very fast; record with a larger --limit";
                Some(self.of(entry, what, why, cause))
            }
            _ => None,
        };
        found.into_iter().collect()
    }

    /// The waits that are open when the record ends.
    pub fn rest(&mut self) -> Vec<Problem> {
        let t = self.run.last;
        let mut problems = self.blocked_at(t, "when the record ends");
        for (qp, stalled) in self.stalled() {
            let waited = match t.saturating_sub(stalled.since) {
                0 => "still waits when the record ends".into(),
                waited => format!("still waits, for {}, when the record ends", duration(waited)),
            };
            problems.push(self.waits(qp, stalled, &waited, t));
        }
        problems
    }

    /// Requests that wait, by their queue pairs.
    fn stalled(&self) -> impl Iterator<Item = (u32, &Stalled)> {
        let all = self.run.qps.iter().filter(|(_, qp)| qp.is_alive());
        all.filter_map(|(number, qp)| Some((*number, qp.stalled.as_ref()?)))
    }

    /// Threads that are blocked at a time, and were not reported.
    fn blocked(
        &mut self,
        t: u64,
        when: &str,
        is_meant: impl Fn(&Run, Thread) -> bool,
    ) -> Vec<Problem> {
        if self.is_partial {
            return Vec::new();
        }
        let moment = Moment { is_now: when == LIVE, ..self.at(t) };
        let hangs = moment.blocked(|thread, blocked| {
            let is_known = self.reported_threads.contains(&(thread, blocked.since));
            !is_known && is_meant(&self.run, thread)
        });
        self.reported_threads.extend(hangs.iter().map(|hang| (hang.thread, hang.since)));
        hangs.into_iter().map(|hang| self.hang(hang, (t, when))).collect()
    }

    /// Threads of all processes that have not ended, blocked at a time.
    fn blocked_at(&mut self, t: u64, when: &str) -> Vec<Problem> {
        let has_ended = |run: &Run, process: u32| {
            run.processes.get(&process).is_some_and(|process| process.ended.is_some())
        };
        self.blocked(t, when, |run, (process, _)| !has_ended(run, process))
    }

    /// Threads of a process that were blocked when it ended. Threads that the end of a program finds
    /// waiting have done their work; one that was killed in the midst of it, or has called `exit` by a
    /// signal's handler, has not.
    fn blocked_until(&mut self, entry: &Entry, exit_by: Option<u32>, end: &str) -> Vec<Problem> {
        self.blocked(entry.t, &format!("until {end}"), |_, (process, thread)| {
            process == entry.process && exit_by.is_none_or(|by| by == thread)
        })
    }

    fn hang(&self, hang: Hang, (t, when): (u64, &str)) -> Problem {
        let Hang { thread: (process, _), since, what, why, cause, source } = hang;
        let waited = duration(t.saturating_sub(since));
        let what = format!("{}: a thread {what}, for {waited}, {when}", self.who(process));
        Problem { source, is_hang: true, ..Problem::new((since, process), what, why, cause) }
    }

    /// Requests that have waited for so long at a time, each reported once.
    fn waiting(&mut self, t: u64, ns: u64) -> Vec<Problem> {
        let mut problems = self.blocked_at(t, LIVE);
        let is_new = |(qp, stalled): &(u32, &Stalled)| {
            t.saturating_sub(stalled.since) >= ns && !self.is_reported(*qp, stalled)
        };
        let new: Vec<_> = self.stalled().filter(is_new).collect();
        for (qp, stalled) in &new {
            let waited = format!("waits for {}", duration(t.saturating_sub(stalled.since)));
            problems.push(self.waits(*qp, stalled, &waited, t));
        }
        let new = new.into_iter().map(|(qp, stalled)| (qp, stalled.wr_id, stalled.since));
        self.reported_requests.extend(new.collect::<Vec<_>>());
        problems
    }

    fn is_reported(&self, qp: u32, stalled: &Stalled) -> bool {
        self.reported_requests.contains(&(qp, stalled.wr_id, stalled.since))
    }

    /// Requests that a call, or the end of their process, keeps from being executed.
    fn stopped(&mut self, t: u64, stopped: Vec<Stopped>) -> Vec<Problem> {
        let moment = Moment::of_record(&self.run, t);
        let (mut waited, mut silent) = (Vec::new(), Vec::new());
        for Stopped { qp, process, how, stalled, unfinished } in stopped {
            // The completion of a request that was reported as waiting says nothing new.
            let shut = stalled.as_ref().filter(|_| how == Stop::Shut);
            self.failed.extend(shut.map(|stalled| (qp, stalled.wr_id)));
            let text = match how {
                Stop::ProcessEnded => "its process ended",
                Stop::Destroyed => "its program destroyed the queue pair",
                Stop::Reset => "its program reset the queue pair",
                Stop::Shut => "its program put the queue pair into the error state",
            };
            // The daemon has put the request off until its own process's memory was gone, and then tried it.
            let is_meant = |stalled: &Stalled| {
                let is_own = stalled.is_out_of_reach(t) && !moment.peer_has_ended(qp);
                !is_own || how != Stop::ProcessEnded
            };
            let stalled = stalled.filter(is_meant);
            let is_waiting = stalled.is_some();
            waited.extend(stalled.map(|stalled| (qp, stalled, text)));
            let is_meant = |unfinished: &Unfinished| match unfinished.is_remote {
                true => t.saturating_sub(unfinished.since) >= ANSWER_NS,
                // A request that waits is reported with its reason; where entries are missing it may be done.
                false => !is_waiting && !self.is_partial,
            };
            let unfinished = unfinished.filter(is_meant);
            silent.extend(unfinished.map(|unfinished| ((qp, process), unfinished, text)));
        }
        let waited = waited.iter().map(|(qp, stalled, how)| {
            let ns = t.saturating_sub(stalled.since);
            let text = format!("still waited, for {}, when {how}", duration(ns));
            let mut problem = self.waits(*qp, stalled, &text, t);
            problem.about.role = Role::Waited { ns, is_told: self.is_reported(*qp, stalled) };
            problem
        });
        let silent =
            silent.iter().map(|(of, unfinished, how)| self.unfinished((t, how), *of, unfinished));
        waited.chain(silent).collect()
    }

    /// Requests that another host has not answered, or that were put off, until something has ended them.
    fn unfinished(
        &self,
        (t, how): (u64, &str),
        (qp, process): (u32, u32),
        unfinished: &Unfinished,
    ) -> Problem {
        let Unfinished { wr_id, since, count, is_remote, source } = unfinished;
        let who = self.who(process);
        let waited = duration(t.saturating_sub(*since));
        let behind = match count - 1 {
            0 => String::new(),
            others => format!(", with {others} behind it,"),
        };
        let (done, why, cause) = match is_remote {
            true => (
                "acknowledged",
                "on the peer's side, which is on another host: its packets tell what came back",
                "the peer posts no receive, has ended, or the network is interrupted: see the packets of \
                 this queue pair, and a record of the other host",
            ),
            false => (
                "executed",
                "on this side: it was put off, as an adapter may do, and as --strict does on purpose",
                "the program did not wait for the completion of its last send: what is not executed by \
                 then never is",
            ),
        };
        let what = format!(
            "{who}: the send work request wr_id={wr_id:#x} of qp {qp}{behind} was not {done}, for \
             {waited}, when {how}"
        );
        let about = About { qps: vec![qp], ..About::default() };
        let source = source.clone();
        Problem { about, source, ..Problem::new((*since, process), what, why.into(), cause) }
    }

    /// A request that waits, at a time.
    fn waits(&self, qp: u32, stalled: &Stalled, waits: &str, t: u64) -> Problem {
        let Stalled { wr_id, process, since, .. } = stalled;
        let peer = self.run.peer(qp);
        let peer = peer.map_or(String::new(), |peer| format!(", connected to qp {peer},"));
        let who = self.who(*process);
        let what =
            format!("{who}: the send work request wr_id={wr_id:#x} of qp {qp}{peer} {waits}");
        let (reason, last) = stalled.reason_at(t);
        let (mut why, cause) = self.explain(reason, Side::Requester, (qp, t));
        if let Some((last, lasted)) = last {
            why += &format!("; at last, for {}: {}", duration(lasted), sentence(last));
        }
        let about = About { qps: vec![qp], ..About::default() };
        let source = stalled.source.clone();
        Problem { about, source, ..Problem::new((*since, *process), what, why, cause) }
    }

    /// The check that has failed for a work request of a queue pair, and what usually causes it.
    fn explain(&self, reason: &Cause, subject: Side, at: (u32, u64)) -> (String, &'static str) {
        let (qp, t) = at;
        let (evidence, cause) = match subject {
            Side::Requester => self.at(t).evidence(qp, reason),
            Side::Responder => Default::default(),
        };
        let counts = match reason {
            Cause::ReceiverNotReady { .. } if subject == Side::Requester => self.at(t).counts(qp),
            _ => String::new(),
        };
        let why = format!("{}: {}{evidence}{counts}", side(reason, subject), sentence(reason));
        (why, cause.unwrap_or_else(|| usual_cause(reason)))
    }

    fn at(&self, t: u64) -> Moment<'_> {
        Moment::of_record(&self.run, t)
    }

    /// A send that its own program has flushed.
    fn flushed(&self, entry: &Entry, completion: &Completion, how: String) -> Problem {
        let Completion { qp, wr_id, .. } = *completion;
        let what = format!(
            "the send work request wr_id={wr_id:#x} of qp {qp} is flushed by its own program"
        );
        let cause = "the connection is ended before the sends are done, and they are lost: wait for their \
                     completions first";
        let about = About { qps: vec![qp], ..About::default() };
        Problem { about, ..self.of(entry, what, format!("on this side: {how}"), cause) }
    }

    fn of(&self, entry: &Entry, what: String, why: String, cause: &str) -> Problem {
        let what = format!("{}: {what}", self.who(entry.process));
        Problem::new((entry.t, entry.process), what, why, cause)
    }

    fn call(&mut self, entry: &Entry, call: &Call) -> Option<Problem> {
        let Outcome::Refused { error, reason, values } = &call.result else { return None };
        let what = format!("{} is refused with {error}", call.name);
        let number = ErrorNumber(error.number());
        let cause = call_cause(&call.name, number, *reason);
        let unknown = || "no more is known than the number".into();
        let mut why = reason.map_or_else(unknown, |reason| reason.to_string());
        why += &compared(values, Value::to_string);
        if call.name == "ibv_post_send" && number == ErrorNumber::ENOMEM {
            why += &self.at(entry.t).full(&call.args);
        }
        Some(self.of(entry, what, why, cause))
    }

    fn connection_event(&mut self, entry: &Entry, event: &ConnectionEvent) -> Option<Problem> {
        if !connection::has_failed(event.event, event.status) {
            return None;
        }
        let (why, cause) = connection::explain(event.event, event.status);
        let what = format!("{} of id {}", event.event, event.id);
        Some(self.of(entry, what, why, cause))
    }

    fn asynchronous(&self, entry: &Entry, event: EventType, element: &Name) -> Option<Problem> {
        let cause = asynchronous(event)?;
        let what = format!("{event} of {} {element}", element.kind());
        let mut problem = self.of(entry, what, "the device reports it by itself".into(), cause);
        problem.about = match *element {
            Name::Qp(qp) => About { qps: vec![qp], role: Role::Consequence, cq: None },
            Name::Cq(cq) => About { cq: Some(cq), role: Role::Consequence, qps: Vec::new() },
            _ => About::default(),
        };
        Some(problem)
    }

    fn executed(&mut self, entry: &Entry, executed: &Executed) -> Option<Problem> {
        let Executed { qp, wr_id, .. } = *executed;
        if executed.status == WcStatus::SUCCESS {
            let reason = executed.reason.as_ref()?;
            let what = format!("the datagram wr_id={wr_id:#x} of qp {qp} is sent, and dropped");
            let (why, cause) = self.explain(reason, Side::Requester, (qp, entry.t));
            let about = About { qps: vec![qp], ..About::default() };
            return Some(Problem { about, ..self.of(entry, what, why, cause) });
        }
        self.failed.insert((qp, wr_id));
        let what = format!(
            "the work request wr_id={wr_id:#x} ({}) of qp {qp} fails with {}",
            executed.opcode, executed.status
        );
        let (why, cause) = match &executed.reason {
            Some(reason) => self.explain(reason, Side::Requester, (qp, entry.t)),
            None => unexplained(executed.status),
        };
        let qps = [Some(qp), self.run.peer(qp)].into_iter().flatten().collect();
        let about = About { qps, role: Role::Cause, cq: None };
        Some(Problem { about, ..self.of(entry, what, why, cause) })
    }

    fn completion(
        &mut self,
        entry: &Entry,
        completion: &Completion,
        effect: &Effect,
    ) -> Option<Problem> {
        let Completion { qp, wr_id, cq, .. } = *completion;
        if completion.lost {
            let what = format!("a completion of qp {qp} is lost");
            let why = format!("the completion queue {cq} has no room");
            let cause = usual_cause(&Cause::CqFull { side: Side::Requester, cq });
            let about = About { qps: vec![qp], role: Role::Cause, cq: Some(cq) };
            return Some(Problem { about, ..self.of(entry, what, why, cause) });
        }
        if completion.status == WcStatus::SUCCESS || self.failed.remove(&(qp, wr_id)) {
            return None;
        }
        let qps = vec![qp];
        if completion.status == WcStatus::WR_FLUSH_ERR {
            // Receives are flushed when the program ends a connection; what another host has got is told by its
            // acknowledgements.
            if let Some(how) = self.at(entry.t).shut(qp) {
                let is_remote = self.run.qps.get(&qp).is_some_and(|qp| qp.has_packets);
                let is_send = effect.flushes_send && !is_remote;
                return is_send.then(|| self.flushed(entry, completion, how));
            }
            let what = format!("a work request of qp {qp} is flushed (wr_id={wr_id:#x})");
            let (why, cause) =
                (status_meaning(WcStatus::WR_FLUSH_ERR).into(), usual_cause(&Cause::Flushed));
            let about = About { qps, role: Role::Consequence, cq: Some(cq) };
            return Some(Problem { about, ..self.of(entry, what, why, cause) });
        }
        let what = format!(
            "the work request wr_id={wr_id:#x} of qp {qp} completes with {}",
            completion.status
        );
        // Of a send that fails it is told before its completion: this is a receive.
        let (why, cause) = match &completion.reason {
            Some(reason) => self.explain(reason, Side::Responder, (qp, entry.t)),
            None => unexplained(completion.status),
        };
        let about = About { qps, role: Role::Cause, cq: None };
        Some(Problem { about, ..self.of(entry, what, why, cause) })
    }
}

fn unexplained(status: WcStatus) -> (String, &'static str) {
    (status_meaning(status).into(), "see the entries before it")
}

/// All that went wrong in a record: causes first, with what has followed from them.
pub fn all(entries: &[Entry]) -> Vec<Problem> {
    let mut explainer = Explainer::new();
    // Missing entries are reported where they are missing.
    explainer.is_partial = entries.iter().any(|entry| matches!(entry.what, What::Dropped { .. }));
    let mut problems: Vec<_> = entries.iter().flat_map(|entry| explainer.problems(entry)).collect();
    problems.extend(explainer.rest());
    order::arranged(problems)
}

/// All that went wrong in a record, as text.
pub fn text(entries: &[Entry]) -> String {
    let problems = all(entries);
    let lines = problems.iter().map(Problem::text);
    match lines.collect::<Vec<_>>() {
        none if none.is_empty() => "Nothing went wrong that the device knows of.\n".into(),
        lines => lines.join("\n"),
    }
}

/// Of a thread that is blocked while its program runs.
const LIVE: &str = "so far";
