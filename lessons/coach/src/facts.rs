//! A run, and questions to its record.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::Duration;

use harness::process::Ending;
use soft_hca_record::arguments;
use soft_hca_record::cause::sentence;
use soft_hca_record::check::{Checker, Finding, Rule};
use soft_hca_record::entry::{
    Call, Completion, ConnectionEvent, Entry, Executed, Outcome, ReceivePosted, SendPosted, What,
};
use soft_hca_record::requests::{Request, Requests};
use soft_hca_record::value::{Name, Value};
use soft_hca_record::{Header, Reader};
use soft_hca_verbs::cause::{Cause, Lost};
use soft_hca_verbs::{AccessFlags, SendFlags, WcStatus};

use crate::error::Error;
use crate::verdict::{Verdict, Wrong, wrong};
use crate::words::{Words, words};

/// A run of a student's program and its peer. Entries are named by their index.
#[derive(Debug)]
pub struct Run {
    /// The record, in the order of time.
    pub entries: Vec<Entry>,
    /// The student's program, as in [`Entry::process`].
    pub student: u32,
    /// Its peer.
    pub peer: u32,
    /// How the student's program ended, if it was started.
    pub student_end: Option<Ending>,
    /// How the peer did.
    pub peer_end: Option<Ending>,
    /// The lines that the peer has printed on standard error.
    pub peer_said: Vec<String>,
    /// The lines that the student's program has printed on standard output.
    pub student_said: Vec<String>,
    /// The time limit, after which a program that has not ended is stopped.
    pub limit: Duration,
    /// The seed, if the run was a strict one.
    pub seed: Option<u64>,
    requests: Vec<Request>,
    /// The polls that have given completions to their programs, by the completions' indices.
    polls: HashMap<usize, usize>,
}

/// An entry's index, and what it says.
pub type At<'r, T> = (usize, &'r T);

/// No process of the record.
const NOBODY: u32 = u32::MAX;

impl Run {
    /// A run by its record. `is_peer` tells the peer's command line from the student's.
    pub fn new(entries: Vec<Entry>, is_peer: impl Fn(&[String]) -> bool) -> Self {
        let find = |wanted: bool| {
            let mut found = entries.iter().filter_map(|entry| match &entry.what {
                What::ProcessBegan { command, role, .. }
                    if *role == soft_hca_record::entry::Role::Program && !command.is_empty() =>
                {
                    (is_peer(command) == wanted).then_some(entry.process)
                }
                _ => None,
            });
            found.next().unwrap_or(NOBODY)
        };
        let (student, peer) = (find(false), find(true));
        let (mut requests, mut polls) = (Requests::default(), HashMap::new());
        entries.iter().for_each(|entry| polls.extend(requests.entry(entry).polled));
        Self {
            student,
            peer,
            student_end: None,
            peer_end: None,
            peer_said: Vec::new(),
            student_said: Vec::new(),
            limit: Duration::ZERO,
            seed: None,
            requests: requests.all(),
            polls,
            entries,
        }
    }

    /// Is it the second run, in which a program gets no more than the specification promises, and
    /// in which its peer may ask for something else?
    pub fn is_strict(&self) -> bool {
        self.seed.is_some()
    }

    /// Was somebody stopped who did not end in time?
    pub fn is_stopped(&self) -> bool {
        [self.student_end, self.peer_end].contains(&Some(Ending::TimedOut))
    }

    /// The first finding of `soft-hca check` in the student's program by one of these rules.
    pub fn finding(&self, rules: &[Rule]) -> Option<Finding> {
        let mut checker = Checker::new();
        self.entries.iter().for_each(|entry| checker.entry(entry));
        let is_it =
            |finding: &Finding| finding.process == self.student && rules.contains(&finding.rule);
        checker.end().into_iter().find(is_it)
    }

    /// Was a datagram lost because `--strict` loses some?
    pub fn loses_on_purpose(&self) -> bool {
        self.entries.iter().any(|entry| match &entry.what {
            What::Executed(Executed { reason, .. }) => {
                matches!(reason, Some(Cause::NotTaken { why: Lost::OnPurpose }))
            }
            _ => false,
        })
    }

    /// The end of a process, by its index.
    pub fn end(&self, process: u32) -> Option<usize> {
        let is_it = |entry: &Entry| {
            entry.process == process && matches!(entry.what, What::ProcessEnded { .. })
        };
        self.entries.iter().rposition(is_it)
    }

    fn of<'r, T: 'r>(
        &'r self,
        process: u32,
        pick: impl Fn(&'r What) -> Option<&'r T>,
    ) -> Vec<At<'r, T>> {
        let entries = self.entries.iter().enumerate();
        let own = entries.filter(|(_, entry)| entry.process == process);
        own.filter_map(|(index, entry)| Some((index, pick(&entry.what)?))).collect()
    }

    /// Send work requests that a process has posted.
    pub fn sends(&self, process: u32) -> Vec<At<'_, SendPosted>> {
        self.of(process, |what| match what {
            What::SendPosted(posted) => Some(posted),
            _ => None,
        })
    }

    /// Receives that a process has posted.
    pub fn receives(&self, process: u32) -> Vec<At<'_, ReceivePosted>> {
        self.of(process, |what| match what {
            What::ReceivePosted(posted) => Some(posted),
            _ => None,
        })
    }

    /// Completions in a process's queues.
    pub fn completions(&self, process: u32) -> Vec<At<'_, Completion>> {
        self.of(process, |what| match what {
            What::Completion(completion) => Some(completion),
            _ => None,
        })
    }

    /// Events of the connection manager that a process has fetched.
    pub fn connection_events(&self, process: u32) -> Vec<At<'_, ConnectionEvent>> {
        self.of(process, |what| match what {
            What::ConnectionEvent(event) => Some(event),
            _ => None,
        })
    }

    /// A process's calls of this name, refused ones as well.
    pub fn calls(&self, process: u32, name: &str) -> Vec<At<'_, Call>> {
        self.of(process, |what| match what {
            What::Call(call) if call.name == name => Some(call),
            _ => None,
        })
    }

    /// The same without those that were refused.
    pub fn done(&self, process: u32, name: &str) -> Vec<At<'_, Call>> {
        let mut calls = self.calls(process, name);
        calls.retain(|(_, call)| matches!(call.result, Outcome::Done(_)));
        calls
    }

    /// The fate of a work request, by the index at which it was posted.
    pub fn request(&self, posted: usize) -> Request {
        let is_it = |request: &&Request| {
            request.posted == Some(posted) || request.receive() == Some(posted)
        };
        self.requests.iter().find(is_it).cloned().unwrap_or_default()
    }

    /// The execution of a send, by the index at which it was posted.
    pub fn execution(&self, posted: usize) -> Option<At<'_, Executed>> {
        let index = self.request(posted).executed?;
        match &self.entries[index].what {
            What::Executed(executed) => Some((index, executed)),
            _ => None,
        }
    }

    /// The poll that has given a completion to the program.
    pub fn polled(&self, completion: usize) -> Option<usize> {
        self.polls.get(&completion).copied()
    }

    /// One work request of a process, which is all that it shall post.
    pub fn only_send(&self, process: u32) -> Result<At<'_, SendPosted>, Wrong> {
        let sends = self.sends(process);
        let entries = sends.iter().map(|(index, _)| *index).collect();
        let what = match sends.as_slice() {
            [one] => return Ok(*one),
            [] => words!(
                "nothing was sent: your program has posted no send",
                "什么也没有发送：你的程序没有提交发送请求"
            ),
            more => words!(
                "{count} sends were posted, for what shall be one message",
                "提交了 {count} 个发送请求，而消息应该只有一条",
                count = more.len()
            ),
        };
        Err(Wrong { what, entries })
    }

    /// A send was executed well, and is signaled; its completion was polled.
    pub fn is_complete(&self, (index, posted): At<'_, SendPosted>) -> Verdict {
        self.is_executed((index, posted))?;
        let request = self.request(index);
        let Some(completion) = request.completion else {
            if posted.flags.contains(SendFlags::SIGNALED) {
                return wrong(
                    words!("the send has no completion", "发送请求没有工作完成"),
                    request.entries(),
                );
            }
            return wrong(
                words!(
                    "the send is not signaled: it gives no completion, and the program \
                     cannot know when its memory is free again",
                    "发送请求不带信号：它不产生工作完成，程序无法知道那块内存何时可以再用"
                ),
                [index],
            );
        };
        if self.polled(completion).is_none() {
            return wrong(
                words!(
                    "nobody has polled the completion of the send",
                    "发送请求的工作完成没有被取走"
                ),
                [index, completion],
            );
        }
        Ok(())
    }

    /// A send was executed, and did not fail.
    pub fn is_executed(&self, (index, posted): At<'_, SendPosted>) -> Verdict {
        let request = self.request(index);
        let Some((at, executed)) = self.execution(index) else {
            let why = request.stalled().and_then(|at| match &self.entries[at].what {
                What::Stalled { reason, .. } => Some(sentence(reason)),
                _ => None,
            });
            let (opcode, why) = (posted.opcode, Words::reason(why));
            let what = words!(
                "the {opcode} was posted, and not executed{why}",
                "{opcode} 提交了，却没有执行{why}",
                [why]
            );
            return wrong(what, request.entries());
        };
        if executed.status != WcStatus::SUCCESS {
            return self.failure(at, executed);
        }
        Ok(())
    }

    /// A message has come into a receive, by the index at which that was posted, and its completion was
    /// polled.
    pub fn is_received(&self, index: usize) -> Verdict {
        let is_message = |at: &usize| matches!(&self.entries[*at].what, What::Completion(done) if done.status == WcStatus::SUCCESS);
        let Some(completion) = self.request(index).received().filter(is_message) else {
            return wrong(
                words!("no message has come into the receive", "没有消息进入接收请求"),
                [index],
            );
        };
        if self.polled(completion).is_none() {
            return wrong(
                words!(
                    "nobody has polled the completion of the receive",
                    "接收请求的工作完成没有被取走"
                ),
                [index, completion],
            );
        }
        Ok(())
    }

    /// The function of librdmacm or libibverbs whose call made an entry, if that is known.
    pub fn called(&self, index: usize) -> Option<&str> {
        let entry = self.entries.get(index)?;
        let number = entry.site.as_ref()?.number;
        let own = self.entries.iter().filter(|other| other.process == entry.process);
        let mut sites = own.filter_map(|other| other.site.as_ref());
        let told = sites.find(|site| site.number == number && site.place.is_some())?;
        told.place.as_ref()?.call.as_deref()
    }

    /// The sends of a process in lists: those that were posted before any of them was executed, or the
    /// thread did something else, were posted by one call. In a strict run sends are executed later, and lists
    /// run into each other.
    pub fn lists(&self, process: u32) -> Vec<Vec<At<'_, SendPosted>>> {
        let mut lists: Vec<Vec<At<'_, SendPosted>>> = Vec::new();
        // The thread that may go on with the last list.
        let mut open = None;
        for (index, entry) in self.entries.iter().enumerate() {
            if entry.process != process || entry.thread.is_none() {
                continue;
            }
            match &entry.what {
                What::SendPosted(posted) => {
                    let list = lists.last_mut().filter(|_| open == entry.thread);
                    match list {
                        Some(list) => list.push((index, posted)),
                        None => lists.push(vec![(index, posted)]),
                    }
                    open = entry.thread;
                }
                _ if open == entry.thread => open = None,
                _ => {}
            }
        }
        lists
    }

    fn failure(&self, at: usize, executed: &Executed) -> Verdict {
        let Executed { opcode, status, reason, .. } = executed;
        let why = Words::reason(reason.as_ref().map(sentence));
        let entries = self.requests.iter().find(|request| request.executed == Some(at));
        let entries: Vec<usize> =
            entries.map(|request| request.entries().collect()).unwrap_or_default();
        wrong(
            words!(
                "the {opcode} fails with {status}{why}",
                "{opcode} 失败，状态是 {status}{why}",
                [why]
            ),
            entries,
        )
    }

    /// A call was not refused.
    pub fn is_done(&self, (index, call): At<'_, Call>) -> Verdict {
        match &call.result {
            Outcome::Refused { error, reason, .. } => {
                let (name, why) = (&call.name, Words::reason(reason.as_ref()));
                wrong(
                    words!(
                        "{name} is refused with {error}{why}",
                        "{name} 被拒绝，错误是 {error}{why}",
                        [why]
                    ),
                    [index],
                )
            }
            Outcome::Done(_) => Ok(()),
        }
    }

    /// No work request and no call of the process has failed, and no message to it because of what it did.
    /// A message to a peer that has died by a signal fails without the process's fault.
    pub fn all_went_well(&self, process: u32) -> Verdict {
        let died = matches!(self.peer_end, Some(Ending::Signal(_))).then(|| self.end(self.peer));
        let died = died.flatten().unwrap_or(self.entries.len());
        for (index, entry) in self.entries.iter().enumerate() {
            match &entry.what {
                What::Executed(executed)
                    if executed.status != WcStatus::SUCCESS && index < died =>
                {
                    self.failure(index, executed)?;
                }
                What::Call(call) if entry.process == process => self.is_done((index, call))?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// The access that a registration allows.
pub fn access(call: &Call) -> AccessFlags {
    arguments::word(&call.args, "access").unwrap_or_default()
}

/// The value that a call has given under a name.
pub fn given<'c>(call: &'c Call, name: &str) -> Option<&'c Value> {
    match &call.result {
        Outcome::Done(values) => arguments::value(values, name),
        Outcome::Refused { .. } => None,
    }
}

/// The key that a call has given.
pub fn key(call: &Call, name: &str) -> Option<u32> {
    match given(call, name)? {
        Value::Name(Name::Key(key)) => Some(*key),
        _ => None,
    }
}

/// Reads a record.
pub fn read(path: &Path) -> Result<(Header, Vec<Entry>), Error> {
    let failed = |source| Error::Record { path: path.to_owned(), source };
    let file = File::open(path).map_err(Error::read(path))?;
    let mut reader = Reader::new(BufReader::new(file)).map_err(failed)?;
    let header = reader.header().clone();
    let entries: Result<Vec<Entry>, _> = reader.by_ref().collect();
    Ok((header, entries.map_err(failed)?))
}
