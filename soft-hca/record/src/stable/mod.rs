//! A record as text that is the same in every run of the same programs.
//!
//! Times are left out, and numbers get names in the order in which they appear. Which of two
//! processes came first differs from run to run, and so does whether a thread had to wait, or
//! which side was first to end a connection. So each process has parts of its own: what each of its
//! threads did, the end of each connection, and what became of the sends and of the receives of
//! each queue pair, each with its completion. What is the same as the line before is counted.
//! Waiting, the arming of completion queues and what was tried in vain are left out; which receive of a shared
//! queue a message has taken is not told.

mod names;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use soft_hca_verbs::{CmEvent, QpState};

use crate::arguments::{cm_id, word};
use crate::calls::ACKNOWLEDGES;
use crate::description::{Description, Place};
use crate::entry::{Call, Entry, Outcome, ReceiveQueue, What};
use crate::model::{Region, Run};
use crate::requests::{Request, Requests};
use crate::value::{Name, Named, Value};
use crate::words::Names;
use crate::{Header, entry};
use names::Given;

/// The subject of a part of a process, each by its index in a list of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// Calls of a thread.
    Thread(usize),
    /// The end of a connection, by its id.
    End(usize),
    /// Asynchronous events.
    Async,
    /// The fates of a queue's requests: sends first, then receives.
    Queue(usize, bool),
}

/// Indices of entries that are one thing: a request and its completion, or a single entry.
type Item = Vec<usize>;

/// The parts of a process, and what is open while they are made.
#[derive(Debug, Default)]
struct Process {
    label: String,
    command: Vec<String>,
    threads: Vec<u32>,
    ids: Vec<u32>,
    queues: Vec<ReceiveQueue>,
    /// The parts and places of the items that entries begin.
    places: HashMap<usize, (Part, usize)>,
    parts: BTreeMap<Part, Vec<Item>>,
}

fn place<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    list.iter().position(|known| *known == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}

/// The ids whose connections end by calls, by the calls' indices: `rdma_disconnect`, and the
/// `ibv_modify_qp` by which librdmacm begins it.
fn disconnecting(entries: &[Entry]) -> HashMap<usize, u32> {
    let mut ends = HashMap::new();
    let mut last = HashMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let What::Call(call) = &entry.what else { continue };
        let thread = (entry.process, entry.thread);
        if call.name == "rdma_disconnect" {
            if let Some(id) = cm_id(&call.args, "id") {
                ends.insert(index, id);
                ends.extend(last.remove(&thread).map(|modified| (modified, id)));
            }
        }
        let state = word(&call.args, "qp_state");
        if call.name == "ibv_modify_qp" && state == Some(QpState::ERR) {
            last.insert(thread, index);
        } else {
            last.remove(&thread);
        }
    }
    ends
}

/// The request that a completion is of.
#[derive(Debug)]
struct Completes {
    is_receive: bool,
    /// The entry that it belongs behind: the execution of a send, or a receive in a queue pair's own queue.
    behind: Option<usize>,
}

/// The requests of a record's completions, by the indices of these.
fn completions(entries: &[Entry], requests: Vec<Request>) -> HashMap<usize, Completes> {
    let is_own = |at: &usize| match &entries[*at].what {
        What::ReceivePosted(posted) => matches!(posted.queue, ReceiveQueue::Qp(_)),
        _ => false,
    };
    let mut all = HashMap::new();
    for Request { executed, completion, arrivals, .. } in requests {
        let of_send = Completes { is_receive: false, behind: executed };
        all.extend(completion.map(|at| (at, of_send)));
        for arrival in arrivals {
            let of_receive = Completes { is_receive: true, behind: arrival.receive.filter(is_own) };
            all.extend(arrival.completion.map(|at| (at, of_receive)));
        }
    }
    all
}

impl Process {
    fn items(&mut self, part: Part) -> &mut Vec<Item> {
        self.parts.entry(part).or_default()
    }

    fn queue(&mut self, queue: ReceiveQueue, is_receive: bool) -> Part {
        Part::Queue(place(&mut self.queues, queue), is_receive)
    }

    /// Adds a thing of its own.
    fn put(&mut self, part: Part, index: usize) {
        let items = self.items(part);
        items.push(vec![index]);
        let at = items.len() - 1;
        self.places.insert(index, (part, at));
    }

    fn add(&mut self, index: usize, entry: &Entry, end: Option<u32>, of: Option<&Completes>) {
        let thread = entry.thread.unwrap_or(0);
        match &entry.what {
            What::Call(call) => {
                self.call(call);
                // Which of two threads is first may differ.
                if !["ibv_req_notify_cq", ACKNOWLEDGES].contains(&call.name.as_str()) {
                    let part = match end {
                        Some(id) => Part::End(place(&mut self.ids, id)),
                        None => Part::Thread(place(&mut self.threads, thread)),
                    };
                    self.put(part, index);
                }
            }
            What::ConnectionEvent(event) => {
                let id = place(&mut self.ids, event.id);
                let ends = [CmEvent::DISCONNECTED, CmEvent::TIMEWAIT_EXIT];
                let part = if ends.contains(&event.event) {
                    Part::End(id)
                } else {
                    Part::Thread(place(&mut self.threads, thread))
                };
                self.put(part, index);
            }
            What::AsyncEvent { .. } => self.put(Part::Async, index),
            What::SendPosted(_) => {
                let part = Part::Thread(place(&mut self.threads, thread));
                self.put(part, index);
            }
            What::ReceivePosted(posted) => {
                let part = self.queue(posted.queue, true);
                self.put(part, index);
            }
            What::Executed(executed) => {
                let part = self.queue(ReceiveQueue::Qp(executed.qp), false);
                self.put(part, index);
            }
            What::Completion(completion) => {
                let is_receive = of.is_some_and(|of| of.is_receive);
                let part = self.queue(ReceiveQueue::Qp(completion.qp), is_receive);
                let behind = of.and_then(|of| self.places.get(&of.behind?)).copied();
                match behind {
                    Some((part, at)) => self.items(part)[at].push(index),
                    None => self.put(part, index),
                }
            }
            _ => {}
        }
    }

    /// A new object has its index from then on, whatever it is used for first.
    fn call(&mut self, call: &Call) {
        let Outcome::Done(values) = &call.result else { return };
        for Named(_, value) in values {
            match *value {
                Value::Name(Name::CmId(id)) => {
                    place(&mut self.ids, id);
                }
                Value::Name(Name::Srq(srq)) => {
                    place(&mut self.queues, ReceiveQueue::Srq(srq));
                }
                Value::Name(Name::Qp(qp)) => {
                    place(&mut self.queues, ReceiveQueue::Qp(qp));
                }
                _ => {}
            }
        }
    }

    /// The process whose names of receives are chance in an entry: they are in a shared queue.
    fn hidden(run: &Run, process: u32, what: &What, is_receive: bool) -> Option<u32> {
        let (process, qp) = match what {
            What::Completion(completion) if is_receive => (process, completion.qp),
            What::Executed(entry::Executed { receive: Some(receive), .. }) => {
                (receive.process, receive.qp)
            }
            _ => return None,
        };
        run.qps.get(&qp).is_some_and(|qp| qp.srq.is_some()).then_some(process)
    }
}

/// All entries of a record.
pub fn text(header: &Header, entries: &[Entry]) -> String {
    let mut requests = Requests::default();
    let regions = entries.iter().filter_map(|entry| requests.entry(entry).region);
    let is_new = |region: &Region| matches!(region.object, Name::Mr(_)) && region.gone.is_none();
    let regions = regions.filter(is_new).collect();
    let completions = completions(entries, requests.all());
    let ends = disconnecting(entries);
    let mut processes: BTreeMap<u32, Process> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let process = processes.entry(entry.process).or_default();
        if let What::ProcessBegan { role, command, .. } = &entry.what {
            process.label = role.program(command).to_owned();
            process.command.clone_from(command);
        }
        process.add(index, entry, ends.get(&index).copied(), completions.get(&index));
    }
    for process in processes.values_mut() {
        for (_, items) in process.parts.iter_mut().filter(|(part, _)| matches!(part, Part::End(_)))
        {
            // The calling side may get its event before or after.
            items.sort_by_key(|item| matches!(entries[item[0]].what, What::ConnectionEvent(_)));
        }
    }
    let mut order: Vec<_> = processes.iter().filter(|(_, of)| !of.parts.is_empty()).collect();
    order.sort_by_key(|(number, process)| (&process.command, **number));
    let labels: HashMap<u32, String> = order
        .iter()
        .enumerate()
        .map(|(index, (number, process))| (**number, format!("{}[{}]", process.label, index + 1)))
        .collect();
    let mut given = Given::new(header, entries, labels, regions);
    let mut out = String::new();
    for (number, process) in order {
        out += &format!("{}: {}\n", given.process(*number), given.command(&process.command));
        for (part, items) in &process.parts {
            given.begin(items[0][0], None);
            out += &heading(*number, process, *part, &mut given);
            let mut folded: Vec<(String, u32)> = Vec::new();
            for item in items {
                let mut lines = String::new();
                for (position, index) in item.iter().enumerate() {
                    let entry = &entries[*index];
                    let is_receive = matches!(part, Part::Queue(_, true));
                    given.begin(
                        *index,
                        Process::hidden(&requests.run, *number, &entry.what, is_receive),
                    );
                    lines += if position == 0 { "    " } else { "\n      " };
                    let is_same_in_every_run = |place| place != Place::Aside;
                    lines +=
                        &Description::of(entry).sentence(*number, &mut given, is_same_in_every_run);
                }
                match folded.last_mut() {
                    Some((last, count)) if *last == lines => *count += 1,
                    _ => folded.push((lines, 1)),
                }
            }
            for (lines, count) in folded {
                let times = if count == 1 { "" } else { &format!(" ({count} times)") };
                out += &format!("{lines}{times}\n");
            }
        }
    }
    out
}

/// The line above a part.
fn heading(number: u32, process: &Process, part: Part, given: &mut Given) -> String {
    match part {
        Part::Thread(_) if process.threads.len() < 2 => String::new(),
        Part::Thread(index) => format!("  thread {}\n", index + 1),
        Part::End(id) => {
            let id = given.name(number, Name::CmId(process.ids[id]));
            format!("  end of {id}\n")
        }
        Part::Async => "  asynchronous events\n".into(),
        Part::Queue(queue, is_receive) => {
            let name = match process.queues[queue] {
                ReceiveQueue::Qp(qp) => Name::Qp(qp),
                ReceiveQueue::Srq(srq) => Name::Srq(srq),
            };
            let kind = if is_receive { "receives" } else { "sends" };
            format!("  {}, {kind}\n", given.name(number, name))
        }
    }
}
