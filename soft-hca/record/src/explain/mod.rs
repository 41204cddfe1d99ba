//! What went wrong in a run, in words for who does not know RDMA by heart: which call, which side,
//! which check with the values compared, and what usually causes it.

mod checks;
mod hang;
mod keys;
mod known;
mod live;
mod order;
mod problem;
mod sources;
mod stalled;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use soft_hca_verbs::cause::{Cause, Side};
use soft_hca_verbs::{ErrorNumber, EventType, WcStatus};

use crate::cause::sentence;
use crate::connection;
use crate::entry::{Call, Completion, ConnectionEvent, Entry, Executed, Outcome, What};
use crate::text::{compared, duration, short_name};
use crate::value::{Name, Value};
use checks::{asynchronous, call_cause, side, status_meaning, usual_cause};
use hang::{Around, Hang, Hangs};
use known::{Change, Known, Unfinished};
use problem::{About, Role};
use sources::Sources;
use stalled::Stalled;

pub use live::Live;
pub use problem::Problem;

/// What another host has not acknowledged for less, in nanoseconds, may just be on its way.
const ANSWER_NS: u64 = 100_000_000;

/// Finds what went wrong in a record, entry after entry.
#[derive(Debug, Default)]
pub struct Explainer {
    processes: HashMap<u32, String>,
    /// Send work requests that have failed: their completions say nothing new.
    failed: HashSet<(u32, u64)>,
    /// By the queue pair.
    stalled: BTreeMap<u32, Stalled>,
    known: Known,
    sources: Sources,
    hangs: Hangs,
    /// Entries are missing: who is blocked may have gone on.
    is_partial: bool,
    /// Processes that have ended.
    ended: HashSet<u32>,
    last: u64,
}

impl Explainer {
    /// At the beginning of a record.
    pub fn new() -> Self {
        Self::default()
    }

    fn who(&self, process: u32) -> String {
        named(&self.processes, process)
    }

    /// What an entry tells of that is a problem.
    pub fn problems(&mut self, entry: &Entry) -> Vec<Problem> {
        let source = self.sources.entry(entry);
        let mut problems = self.found(entry);
        for problem in problems.iter_mut().filter(|problem| problem.source.is_none()) {
            problem.source.clone_from(&source);
        }
        problems
    }

    fn found(&mut self, entry: &Entry) -> Vec<Problem> {
        self.last = self.last.max(entry.t);
        self.hangs.entry(entry);
        let change = self.known.entry(entry);
        if let Some((qp, change)) = change {
            // The completion of a request that was reported as waiting says nothing new.
            let waited = self.stalled.get(&qp).filter(|_| change == Change::Shut);
            self.failed.extend(waited.map(|stalled| (qp, stalled.wr_id)));
            let is_over = |number, _| number == qp;
            return self.waited_until(entry.t, Some(change), is_over);
        }
        let found = match &entry.what {
            What::ProcessBegan { pid, role, command, .. } => {
                let label = format!("{}[{pid}]", short_name(*role, command));
                self.processes.insert(entry.process, label);
                None
            }
            What::ProcessEnded { exit_by, .. } => {
                let end = match exit_by {
                    None => "its process was killed",
                    Some(_) => "its process ended",
                };
                let mut problems = self.blocked_until(entry, *exit_by, end);
                let is_its = |_, process| process == entry.process;
                problems.extend(self.waited_until(entry.t, None, is_its));
                return problems;
            }
            // Nothing is wrong with it.
            What::Stalled { reason: Cause::Held { .. }, .. } => None,
            What::Stalled { qp, wr_id, reason } => {
                self.stalls(entry, *qp, *wr_id, reason);
                None
            }
            What::Call(call) => self.call(entry, call),
            What::ConnectionEvent(event) => self.connection_event(entry, event),
            What::Executed(executed) => self.executed(entry, executed),
            What::Completion(completion) => self.completion(entry, completion),
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

    /// What is still open when the record ends: who waits for what.
    pub fn rest(&mut self) -> Vec<Problem> {
        let mut problems = self.blocked_at(self.last, "when the record ends");
        let stalled = std::mem::take(&mut self.stalled);
        let of = |(qp, stalled): (&u32, &Stalled)| {
            let waited = match self.last.saturating_sub(stalled.since) {
                0 => "still waits when the record ends".into(),
                waited => format!("still waits, for {}, when the record ends", duration(waited)),
            };
            self.waits(*qp, stalled, &waited, self.last)
        };
        problems.extend(stalled.iter().map(of));
        problems
    }

    /// Threads of all processes that are blocked at a time, and were not told of.
    fn blocked_at(&mut self, t: u64, when: &str) -> Vec<Problem> {
        let who = |process: u32| named(&self.processes, process);
        let around = Around { t, who: &who, stalled: &self.stalled, is_live: when == LIVE };
        let has_ended = &self.ended;
        let is_partial = self.is_partial;
        let found = self
            .hangs
            .blocked(&around, |(process, _)| !is_partial && !has_ended.contains(&process));
        found.into_iter().map(|hang| blocked(&who, hang, (t, when))).collect()
    }

    /// Threads of a process that were blocked when it ended. Threads that the end of a program finds
    /// waiting have done their work; one that was killed in the midst of it, or has called `exit` by a
    /// signal's handler, has not.
    fn blocked_until(&mut self, entry: &Entry, exit_by: Option<u32>, end: &str) -> Vec<Problem> {
        self.ended.insert(entry.process);
        let who = |process: u32| named(&self.processes, process);
        let around = Around { t: entry.t, who: &who, stalled: &self.stalled, is_live: false };
        let is_partial = self.is_partial;
        let found = self.hangs.blocked(&around, |(process, thread)| {
            !is_partial && process == entry.process && exit_by.is_none_or(|by| by == thread)
        });
        let when = format!("until {end}");
        found.into_iter().map(|hang| blocked(&who, hang, (entry.t, &when))).collect()
    }

    fn stalls(&mut self, entry: &Entry, qp: u32, wr_id: u64, reason: &Cause) {
        let Entry { t, process, .. } = *entry;
        let new = || Stalled::new(wr_id, process, t, reason);
        let stalled = self.stalled.entry(qp).or_insert_with(new);
        if stalled.wr_id != wr_id {
            *stalled = new();
        }
        stalled.becomes(t, reason);
    }

    /// Requests that have waited for so long at a time, each told once.
    fn waiting(&mut self, t: u64, ns: u64) -> Vec<Problem> {
        let mut blocked = self.blocked_at(t, LIVE);
        let mut stalled = std::mem::take(&mut self.stalled);
        let new = stalled
            .iter_mut()
            .filter(|(_, stalled)| !stalled.is_told && t.saturating_sub(stalled.since) >= ns);
        let problems = new.map(|(qp, stalled)| {
            stalled.is_told = true;
            let waited = format!("waits for {}", duration(t.saturating_sub(stalled.since)));
            self.waits(*qp, stalled, &waited, t)
        });
        blocked.extend(problems);
        self.stalled = stalled;
        blocked
    }

    /// Requests that a call, or the end of their process, keeps from being executed; `is_over` gets queue pair and
    /// process.
    fn waited_until(
        &mut self,
        t: u64,
        change: Option<Change>,
        is_over: impl Fn(u32, u32) -> bool,
    ) -> Vec<Problem> {
        let how = match change {
            None => "its process ended",
            Some(Change::Destroyed) => "its program destroyed the queue pair",
            Some(Change::Reset) => "its program reset the queue pair",
            Some(Change::Shut) => "its program put the queue pair into the error state",
        };
        let are_flushed = change == Some(Change::Shut);
        let unfinished = self.known.unfinished(&is_over, are_flushed);
        let all = std::mem::take(&mut self.stalled);
        let (over, others) =
            all.into_iter().partition(|(qp, stalled)| is_over(*qp, stalled.process));
        self.stalled = others;
        let mut over: BTreeMap<u32, Stalled> = over;
        // The daemon has put the request off until its own process's memory was gone, and then tried it.
        over.retain(|qp, stalled| {
            let is_own = stalled.is_out_of_reach(t) && !self.known.peer_has_ended(*qp, t);
            !is_own || change.is_some()
        });
        let of = |(qp, stalled): (&u32, &Stalled)| {
            let waited = t.saturating_sub(stalled.since);
            let text = format!("still waited, for {}, when {how}", duration(waited));
            let mut problem = self.waits(*qp, stalled, &text, t);
            let is_told = stalled.is_told;
            problem.about.role = Role::Waited { ns: waited, is_told };
            problem
        };
        let is_meant = |unfinished: &Unfinished| match unfinished.is_remote {
            true => t.saturating_sub(unfinished.since) >= ANSWER_NS,
            // A request that waits is reported with its reason; where entries are missing it may be done.
            false => !over.contains_key(&unfinished.qp) && !self.is_partial,
        };
        let unfinished = unfinished.into_iter().filter(is_meant);
        let unfinished = unfinished.map(|unfinished| self.unfinished(t, how, unfinished));
        over.iter().map(of).chain(unfinished).collect()
    }

    /// Requests that another host has not answered, or that were put off, until something has ended them.
    fn unfinished(&self, t: u64, how: &str, unfinished: Unfinished) -> Problem {
        let Unfinished { qp, process, wr_id, since, count, is_remote } = unfinished;
        let who = self.who(process);
        let waited = duration(t.saturating_sub(since));
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
        let source = self.sources.send(qp, wr_id);
        Problem { about, source, ..Problem::new((since, process), what, why.into(), cause) }
    }

    /// Who waits for what, at a time.
    fn waits(&self, qp: u32, stalled: &Stalled, waits: &str, t: u64) -> Problem {
        let Stalled { wr_id, process, since, .. } = stalled;
        let peer = self.known.peer(qp);
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
        let source = self.sources.send(qp, *wr_id);
        Problem { about, source, ..Problem::new((*since, *process), what, why, cause) }
    }

    /// The check that has failed for a work request of a queue pair, and what usually causes it.
    fn explain(&self, reason: &Cause, subject: Side, at: (u32, u64)) -> (String, &'static str) {
        let (evidence, cause) = match subject {
            Side::Requester => self.known.evidence(at, reason, |process| self.who(process)),
            Side::Responder => Default::default(),
        };
        let counts = match reason {
            Cause::ReceiverNotReady { .. } if subject == Side::Requester => self.hangs.counts(at.0),
            _ => String::new(),
        };
        let why = format!("{}: {}{evidence}{counts}", side(reason, subject), sentence(reason));
        (why, cause.unwrap_or_else(|| usual_cause(reason)))
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
            let who = |process: u32| named(&self.processes, process);
            let around = Around { t: entry.t, who: &who, stalled: &self.stalled, is_live: false };
            why += &self.hangs.full(&call.args, &around);
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
        self.stalled.remove(&qp);
        if executed.status == WcStatus::SUCCESS {
            let reason = executed.reason.as_ref()?;
            let what = format!("the datagram wr_id={wr_id:#x} of qp {qp} is sent, and dropped");
            let (why, cause) = self.explain(reason, Side::Requester, (qp, entry.t));
            let about = About { qps: vec![qp], ..About::default() };
            return Some(Problem { about, ..self.of(entry, what, why, cause) });
        }
        self.failed.insert((qp, wr_id));
        self.known.failed(qp, entry.process);
        let what = format!(
            "the work request wr_id={wr_id:#x} ({}) of qp {qp} fails with {}",
            executed.opcode, executed.status
        );
        let (why, cause) = match &executed.reason {
            Some(reason) => self.explain(reason, Side::Requester, (qp, entry.t)),
            None => unexplained(executed.status),
        };
        let qps = [Some(qp), self.known.peer(qp)].into_iter().flatten().collect();
        let about = About { qps, role: Role::Cause, cq: None };
        Some(Problem { about, ..self.of(entry, what, why, cause) })
    }

    fn completion(&mut self, entry: &Entry, completion: &Completion) -> Option<Problem> {
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
            let is_send = self.known.flushes(qp, wr_id);
            // Receives are flushed when the program ends a connection.
            if let Some(how) = self.known.shut(qp, entry.t) {
                return is_send.then(|| self.flushed(entry, completion, how));
            }
            let what = format!("a work request of qp {qp} is flushed (wr_id={wr_id:#x})");
            let (why, cause) =
                (status_meaning(WcStatus::WR_FLUSH_ERR).into(), usual_cause(&Cause::Flushed));
            let about = About { qps, role: Role::Consequence, cq: Some(cq) };
            return Some(Problem { about, ..self.of(entry, what, why, cause) });
        }
        self.known.failed(qp, entry.process);
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

/// A process by what is known of it.
fn named(processes: &HashMap<u32, String>, process: u32) -> String {
    processes.get(&process).cloned().unwrap_or_else(|| format!("process {process}"))
}

/// A thread that is blocked.
fn blocked(who: &dyn Fn(u32) -> String, hang: Hang, (t, when): (u64, &str)) -> Problem {
    let Hang { process, since, what, why, cause, source } = hang;
    let waited = duration(t.saturating_sub(since));
    let what = format!("{}: a thread {what}, for {waited}, {when}", who(process));
    Problem { source, is_hang: true, ..Problem::new((since, process), what, why, cause) }
}

fn unexplained(status: WcStatus) -> (String, &'static str) {
    (status_meaning(status).into(), "see the entries before it")
}

/// All that went wrong in a record: causes first, with what has followed from them.
pub fn all(entries: &[Entry]) -> Vec<Problem> {
    let mut explainer = Explainer::new();
    // That some are is told at the end.
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
