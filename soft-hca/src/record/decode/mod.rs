//! Decodes traced events into entries of a record, where numbers have names.
//!
//! | file | what |
//! | --- | --- |
//! | `objects` | objects of the fabric: numbers, and what they were made for |
//! | `verbs`, `cm` | calls, and events of the connection manager |
//! | `work` | work requests and completions |
//! | `posts` | work requests that the library refuses |
//! | `places` | places in the programs' sources |
//! | `symbols` | addresses by the debug information of their files |
//! | `packets` | packets of the link, and which of them are sent again |
//! | `names` | values of calls with their names |

mod cm;
mod names;
mod objects;
mod packets;
mod places;
mod posts;
mod symbols;
#[cfg(test)]
mod tests;
mod verbs;
mod work;

use std::collections::HashMap;

use soft_hca_core::engine::{Async, DAEMON, LINK, Subject};
use soft_hca_core::errno::{Errno, Label};
use soft_hca_core::trace::cause;
use soft_hca_core::trace::event::{self, Event, Notice, Raised, Stalled, Wait, Woken};
use soft_hca_core::trace::{About, Record};
use soft_hca_fault::FaultReport;
use soft_hca_record::calls::ACKNOWLEDGES;
use soft_hca_record::entry::{
    Call, Channel, Entry, Failure, MatchedReceive, Outcome, Role, Seen, Unacknowledged, What,
};
use soft_hca_record::{Name, Named, Value};
use soft_hca_verbs::{AccessFlags, ErrorNumber, EventType, QpState, Refusal};

pub(super) use names::gid;

use names::named;
use objects::Objects;
use packets::Packets;
use places::Places;

/// The state of the fabric from the records so far.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// Processes by their index in the fabric: number in the record, and whether it is known what
    /// they are.
    processes: HashMap<u32, (u32, bool)>,
    count: u32,
    objects: Objects,
    /// Packets that the link has sent.
    packets: Packets,
    /// Processes, by their index, that have called `exit`: what is told when they have ended.
    exits: HashMap<u32, What>,
    /// Places in the programs.
    pub places: Places,
    /// When the recording began, `CLOCK_MONOTONIC` nanoseconds.
    began: u64,
}

impl Decoder {
    pub(super) fn new(began: u64) -> Self {
        Self { began, ..Self::default() }
    }

    /// The entries of a process's record, which may need one for a process before it.
    pub(super) fn entries(&mut self, by: u32, record: &Record) -> Vec<Entry> {
        let mut entries = Vec::new();
        let About { thread, proc, t, site } = record.about;
        let t = t.saturating_sub(self.began);
        if let Event::Began(began) = record.event {
            entries.push(self.process_began(t, proc, began.pid, &record.tail));
            return entries;
        }
        let Some(what) = self.what(record, t, &mut entries) else { return entries };
        let process = self.process(t, proc, &mut entries);
        let by = (by != proc).then(|| self.process(t, by, &mut entries));
        if matches!(what, What::ProcessEnded { .. }) {
            self.processes.remove(&proc);
        }
        let thread = Some(thread).filter(|thread| *thread != 0);
        let site = if is_of_program(&what) { self.places.site(proc, site) } else { None };
        entries.push(Entry { t, process, thread, by, what, site });
        entries
    }

    /// The entry that says that records of a process are missing.
    pub(super) fn dropped(&mut self, t: u64, proc: u32, count: u64) -> Vec<Entry> {
        let t = t.saturating_sub(self.began);
        let mut entries = Vec::new();
        let process = self.process(t, proc, &mut entries);
        let what = What::Dropped { entries: count };
        entries.push(Entry { t, process, thread: None, by: None, what, site: None });
        entries
    }

    fn process_began(&mut self, t: u64, proc: u32, pid: u32, command: &[u8]) -> Entry {
        let number = match self.processes.get(&proc) {
            Some((number, false)) => *number,
            _ => self.next_number(),
        };
        self.processes.insert(proc, (number, true));
        let words = command.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let command = words.map(|word| String::from_utf8_lossy(word).into_owned());
        let is_daemon = [DAEMON, LINK].contains(&(proc as usize));
        let (role, command) =
            if is_daemon { (Role::Daemon, Vec::new()) } else { (Role::Program, command.collect()) };
        let what = What::ProcessBegan { pid, role, command, host: None };
        Entry { t, process: number, thread: None, by: None, what, site: None }
    }

    fn next_number(&mut self) -> u32 {
        self.count += 1;
        self.count - 1
    }

    /// A process's number. One that has not told what it is gets an entry all the same.
    fn process(&mut self, t: u64, proc: u32, entries: &mut Vec<Entry>) -> u32 {
        if let Some((number, _)) = self.processes.get(&proc) {
            return *number;
        }
        let process = self.next_number();
        self.processes.insert(proc, (process, false));
        let role = Role::Program;
        let what = What::ProcessBegan { pid: 0, role, command: Vec::new(), host: None };
        entries.push(Entry { t, process, thread: None, by: None, what, site: None });
        process
    }

    fn what(&mut self, record: &Record, t: u64, entries: &mut Vec<Entry>) -> Option<What> {
        let (proc, tail) = (record.about.proc, &record.tail[..]);
        Some(match record.event {
            Event::Began(_) | Event::Place(_) => return None,
            Event::PostRefused(refused) => What::Call(posts::refused(&self.objects, &refused)?),
            Event::Exits(exits) => {
                self.exits.insert(proc, exited(exits, record.about.thread, tail)?);
                return None;
            }
            Event::Ended(_) => self.exits.remove(&proc).unwrap_or(What::ProcessEnded {
                exit_by: None,
                status: None,
                unacknowledged: Vec::new(),
                open: Vec::new(),
            }),
            Event::Forked(event::Forked { duration, status }) => {
                let args = vec![named("fork_status", fork_status(status))];
                let result = Outcome::Done(vec![named("child", "lives")]);
                What::Call(Call { result, duration, ..made("fork".into(), args) })
            }
            Event::InChild(event::InChild { pid }) => {
                let name = String::from_utf8_lossy(tail).into_owned();
                What::Call(made(name, vec![named("child", pid)]))
            }
            Event::Acknowledged(event::Acknowledged { id }) => {
                What::Call(made(ACKNOWLEDGES.into(), vec![named("id", Name::CmId(id))]))
            }
            Event::Call(call) => What::Call(self.call(proc, &call, tail)?),
            Event::SendPosted(posted) => What::SendPosted(work::send_posted(&posted, tail)),
            Event::ReceivePosted(posted) => {
                What::ReceivePosted(work::receive_posted(&posted, tail))
            }
            Event::Stalled(Stalled { wr_id, qpn: qp }) => {
                What::Stalled { qp, wr_id, reason: cause::decode(tail)? }
            }
            Event::Executed(done) => {
                let (qp, wr_id) = (done.receive_qpn, done.receive_wr_id);
                let receiver = (qp != 0).then(|| self.process(t, done.receive_proc, entries));
                let receive = receiver.map(|process| MatchedReceive { process, qp, wr_id });
                What::Executed(work::executed(&done, receive, tail))
            }
            Event::Completion(done) => What::Completion(work::completion(&done, tail)),
            Event::Polled(polled) => What::Polled(work::polled(&polled, self.began, tail)),
            Event::Wait(Wait { channel: on, fd }) => What::Wait { on: channel(on)?, fd: fd as u32 },
            Event::Woken(Woken { waited, channel: on, fd, is_event }) => {
                What::Woken { on: channel(on)?, fd: fd as u32, waited, event: is_event != 0 }
            }
            Event::Connection(_) => {
                What::ConnectionEvent(cm::event(&mut self.objects, proc, tail)?)
            }
            Event::Packet(packet) => What::Packet(self.packets.packet(&packet)),
            Event::Raised(raised) => raised_event(raised)?,
            Event::Notice(notice) => notice_event(notice, tail),
            Event::Fault(_) => What::Call(fault(tail)?),
        })
    }

    fn call(&mut self, proc: u32, body: &event::Call, tail: &[u8]) -> Option<Call> {
        let (request, rest) = tail.split_at_checked(body.request as usize)?;
        let (answer, why) = rest.split_at_checked(body.answer as usize)?;
        let answer = (body.errno == 0).then_some(answer);
        let (name, args, done) = match body.device {
            0 => verbs::call(&mut self.objects, proc, body, request, answer),
            _ => cm::call(&mut self.objects, proc, body.fd, request, answer),
        };
        let result = match body.errno {
            0 => Outcome::Done(done),
            number => {
                let error = Errno::new(number);
                let refused = error.explained(why).unwrap_or(error);
                Outcome::Refused {
                    error: Failure::Error(ErrorNumber(number)),
                    reason: refused.reason(),
                    values: refused.values().iter().map(compared_value).collect(),
                }
            }
        };
        let unacknowledged = body.unacknowledged;
        Some(Call { name, args, duration: body.duration, result, unacknowledged })
    }
}

/// Whether a program's thread does it itself, in the call that it makes. What becomes of a request may
/// show in a later one.
fn is_of_program(what: &What) -> bool {
    match what {
        What::Call(_)
        | What::ConnectionEvent(_)
        | What::SendPosted(_)
        | What::Polled(_)
        | What::Wait { .. }
        | What::Woken { .. } => true,
        What::ReceivePosted(posted) => posted.seen == Seen::AtPost,
        _ => false,
    }
}

fn raised_event(raised: Raised) -> Option<What> {
    let what = Async::from_words(raised.kind, raised.index)?;
    let element = match what.subject() {
        Subject::Cq(cq) => Name::Cq(cq),
        Subject::Srq(srq) => Name::Srq(srq + 1),
        Subject::Qp(qpn) => Name::Qp(qpn),
    };
    let event = EventType(what.event_type());
    Some(What::AsyncEvent { event, element: Some(element), place: None })
}

fn notice_event(Notice { event_type, qpn }: Notice, place: &[u8]) -> What {
    let element = (qpn != 0).then_some(Name::Qp(qpn));
    let place = String::from_utf8_lossy(place).into_owned();
    What::AsyncEvent { event: EventType(event_type), element, place: Some(place) }
}

/// A call to which a fault has happened. It counts as made if it only was late or skipped.
fn fault(bytes: &[u8]) -> Option<Call> {
    let FaultReport { call: name, specs, outcome } = FaultReport::decode(bytes)?;
    let result = match outcome.is_empty() {
        true => Outcome::Done(Vec::new()),
        false => Outcome::Refused {
            error: outcome.parse().ok()?,
            reason: Some(Refusal::Fault),
            values: Vec::new(),
        },
    };
    Some(Call { result, ..made(name, vec![named("fault", specs.as_str())]) })
}

/// A call that asks the kernel for nothing, and succeeds.
fn made(name: String, args: Vec<Named>) -> Call {
    Call { name, args, duration: 0, result: Outcome::Done(Vec::new()), unacknowledged: 0 }
}

/// A value that a refused call was checked with.
fn compared_value((label, value): (Label, u64)) -> Named {
    let number = value as u32;
    let value = match label {
        Label::Qp => Name::Qp(number).into(),
        Label::Mr => Name::Mr(number).into(),
        Label::Mw => Name::Mw(number).into(),
        Label::Ah => Name::Ah(number).into(),
        Label::Srq => Name::Srq(number).into(),
        Label::State => QpState(number).to_string().into(),
        Label::Access => AccessFlags::from_bits_retain(number).to_string().into(),
        Label::Requested | Label::Limit | Label::Entries | Label::Handle | Label::More => {
            Value::Number(value as i64)
        }
    };
    Named(label.name().into(), value)
}

/// The end of a process by a thread that has called `exit`.
fn exited(exits: event::Exits, thread: u32, tail: &[u8]) -> Option<What> {
    let count = exits.unacknowledged as usize;
    let (left, open) =
        tail.split_at_checked(count.checked_mul(size_of::<event::Unacknowledged>())?)?;
    let left = event::Unacknowledged::all(left).filter_map(|left| unacknowledged(&left));
    let open = event::Open::all(open).filter_map(|event::Open { kind, fd }| {
        Some(match event::OpenKind::of(kind)? {
            event::OpenKind::Device => Name::Context(fd as u32),
            event::OpenKind::CompletionChannel => Name::Channel(fd as u32),
        })
    });
    Some(What::ProcessEnded {
        exit_by: Some(thread),
        status: Some(exits.status),
        unacknowledged: left.collect(),
        open: open.collect(),
    })
}

/// Events that were not acknowledged when their process has ended.
fn unacknowledged(left: &event::Unacknowledged) -> Option<Unacknowledged> {
    let number = left.number;
    let of = match event::Source::of(left.source)? {
        event::Source::Cq => Name::Cq(number),
        event::Source::Id => Name::CmId(number),
        event::Source::Qp => Name::Qp(number),
        event::Source::Srq => Name::Srq(number + 1),
    };
    Some(Unacknowledged { of, events: left.events })
}

/// The result of `ibv_is_fork_initialized`.
fn fork_status(number: u32) -> &'static str {
    match number {
        0 => "IBV_FORK_DISABLED",
        1 => "IBV_FORK_ENABLED",
        _ => "IBV_FORK_UNNEEDED",
    }
}

fn channel(number: u32) -> Option<Channel> {
    Some(match event::Channel::of(number)? {
        event::Channel::Completion => Channel::Completion,
        event::Channel::Connection => Channel::Connection,
        event::Channel::Async => Channel::Async,
    })
}
