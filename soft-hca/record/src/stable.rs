//! A record as text that is the same in every run of the same programs.
//!
//! Times are left out, and numbers get names in the order in which they appear. Which of two
//! processes came first differs from run to run, and so does whether a thread had to wait. So each
//! process has a part of its own: first what each of its threads did, then what became of the sends
//! and of the receives of each queue pair. Waiting, the arming of completion queues and what was tried in vain
//! are left out.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::entry::{Call, Completion, Entry, Outcome, ReceiveQueue, What};
use crate::text::{Names, Style, describe, short_name};
use crate::value::{Name, Named, Value};

/// Numbers below this are a program's own choice, and the same in every run.
const SMALL: u64 = 1 << 16;

/// Names that were given.
#[derive(Debug, Default)]
struct Given {
    names: HashMap<(Option<u32>, Name), String>,
    counts: HashMap<&'static str, u32>,
    /// Of each process the regions it has registered: first address, bytes, name.
    regions: Vec<(u32, u64, u64, String)>,
}

impl Given {
    /// A region that this address is in.
    fn region(&self, process: u32, address: u64) -> Option<String> {
        let found = self.regions.iter().rev().find(|(owner, start, length, _)| {
            *owner == process && address >= *start && address - start < (*length).max(1)
        });
        found.map(|(_, start, _, name)| match address - start {
            0 => name.clone(),
            offset => format!("{name}+{offset}"),
        })
    }

    /// Takes note of a region that is registered.
    fn learn(&mut self, process: u32, call: &Call) {
        let Outcome::Done(values) = &call.result else { return };
        let find = |values: &[Named], wanted: &str| {
            values.iter().find(|Named(name, _)| name == wanted).map(|Named(_, value)| value.clone())
        };
        if call.name == "ibv_reg_mr"
            && let Some(Value::Name(Name::Address(start))) = find(&call.args, "addr")
            && let Some(Value::Number(length)) = find(&call.args, "length")
            && let Some(Value::Name(mr)) = find(values, "mr")
        {
            let name = self.name(process, mr);
            self.regions.push((process, start, length as u64, format!("{name}:")));
        }
    }
}

impl Names for Given {
    fn name(&mut self, process: u32, name: Name) -> String {
        match name {
            Name::WrId(number) if number < SMALL => return number.to_string(),
            Name::Key(0) => return "0".into(),
            Name::Address(address) => {
                if let Some(place) = self.region(process, address) {
                    return place;
                }
            }
            _ => {}
        }
        // Numbers of the whole fabric, and those that each process has for itself.
        let owner = match name {
            Name::Qp(_) | Name::Cq(_) | Name::Srq(_) | Name::CmId(_) | Name::Key(_) => None,
            Name::Psn(_) => None,
            _ => Some(process),
        };
        if let Some(known) = self.names.get(&(owner, name)) {
            return known.clone();
        }
        let count = self.counts.entry(name.kind()).or_default();
        *count += 1;
        let given = format!("{}{count}", name.kind());
        self.names.insert((owner, name), given.clone());
        given
    }
}

/// What a part of a process is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// What a thread did, by the number of the thread within its process.
    Thread(usize),
    /// What became of a queue pair's or shared queue's requests, by its place in the record: sends
    /// first, then receives, for which of them came first is chance.
    Queue(usize, bool),
}

/// The parts of a process.
#[derive(Debug, Default)]
struct Process<'e> {
    label: String,
    command: Vec<String>,
    threads: Vec<u32>,
    queues: Vec<(bool, u32)>,
    /// Sends that have failed and receives that were posted, to tell completions with an error, which
    /// have no opcode.
    failing: HashSet<(u32, u64)>,
    receives: HashSet<((bool, u32), u64)>,
    parts: BTreeMap<Part, Vec<&'e What>>,
}

fn place<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    list.iter().position(|known| *known == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}

impl<'e> Process<'e> {
    /// Whether a completion is a receive's.
    fn is_receive(&mut self, completion: &Completion) -> bool {
        let Completion { qp, wr_id, .. } = *completion;
        match completion.status.as_str() {
            "IBV_WC_SUCCESS" => completion.opcode.starts_with("IBV_WC_RECV"),
            // Some programs name a send and a receive alike: sends are told by what is before.
            _ => {
                !self.failing.remove(&(qp, wr_id)) && self.receives.contains(&((false, qp), wr_id))
            }
        }
    }

    fn add(&mut self, entry: &'e Entry) {
        let mut is_receive = false;
        let queue = match &entry.what {
            What::SendPosted(_) | What::ConnectionEvent(_) | What::AsyncEvent { .. } => None,
            What::Call(call) if call.name == "ibv_req_notify_cq" => return,
            What::Call(_) => None,
            What::ReceivePosted(posted) => {
                is_receive = true;
                let queue = match posted.queue {
                    ReceiveQueue::Qp(qp) => (false, qp),
                    ReceiveQueue::Srq(srq) => (true, srq),
                };
                self.receives.insert((queue, posted.wr_id));
                Some(queue)
            }
            What::Executed(executed) => {
                if executed.status != "IBV_WC_SUCCESS" {
                    self.failing.insert((executed.qp, executed.wr_id));
                }
                Some((false, executed.qp))
            }
            What::Completion(completion) => {
                is_receive = self.is_receive(completion);
                Some((false, completion.qp))
            }
            _ => return,
        };
        let part = match queue {
            Some(queue) => Part::Queue(place(&mut self.queues, queue), is_receive),
            None => Part::Thread(place(&mut self.threads, entry.thread.unwrap_or(0))),
        };
        self.parts.entry(part).or_default().push(&entry.what);
    }
}

/// All entries of a record.
pub fn text(entries: &[Entry]) -> String {
    let mut processes: BTreeMap<u32, Process<'_>> = BTreeMap::new();
    for entry in entries {
        let process = processes.entry(entry.process).or_default();
        if let What::ProcessBegan { role, command, .. } = &entry.what {
            process.label = short_name(*role, command);
            process.command.clone_from(command);
        }
        process.add(entry);
    }
    let mut order: Vec<_> = processes.iter().filter(|(_, of)| !of.parts.is_empty()).collect();
    order.sort_by_key(|(number, process)| (&process.command, **number));
    let labels: HashMap<u32, String> = order
        .iter()
        .enumerate()
        .map(|(index, (number, process))| (**number, format!("{}[{}]", process.label, index + 1)))
        .collect();
    let who = |process: u32| labels.get(&process).cloned().unwrap_or_default();
    let mut given = Given::default();
    let mut out = String::new();
    for (number, process) in order {
        out += &format!("{}: {}\n", who(*number), process.command.join(" "));
        let threads = process.threads.len();
        for (part, whats) in &process.parts {
            match part {
                Part::Thread(_) if threads < 2 => {}
                Part::Thread(index) => out += &format!("  thread {}\n", index + 1),
                Part::Queue(index, is_receive) => {
                    let (is_shared, queue) = process.queues[*index];
                    let name = if is_shared { Name::Srq(queue) } else { Name::Qp(queue) };
                    let kind = if *is_receive { "receives" } else { "sends" };
                    out += &format!("  {}, {kind}\n", given.name(*number, name));
                }
            }
            for what in whats {
                let line = describe(*number, what, &mut given, Style::Stable, who);
                out += &format!("    {line}\n");
                if let What::Call(call) = what {
                    given.learn(*number, call);
                }
            }
        }
    }
    out
}
