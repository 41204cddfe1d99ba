//! Correlates a record's entries: what belongs together, which part of a run each is in, and what
//! repeats.
//!
//! - [`links`]: a work request, the receive that it met and both completions; a call and the
//!   events that it leads to
//! - [`link`]: the same where packets are between
//! - [`numbers`], [`regions`], [`queue_pairs`]: a work request's number, its memory, whose queue pair an entry
//!   is about
//! - [`arming`]: the arming of a completion queue and the wake-up that follows
//! - [`threads`]: who did it
//! - [`phases`]: setup, connection, messages, teardown
//! - [`rounds`]: parts that repeat, such as the rounds of a ping-pong

mod arming;
mod link;
mod links;
mod numbers;
mod packets;
pub(crate) mod phases;
pub(crate) mod queue_pairs;
mod regions;
pub(crate) mod rounds;
mod threads;

use std::collections::{BTreeSet, HashMap};

pub(crate) use numbers::Number;
pub(crate) use regions::Region;
pub(crate) use threads::Threads;

use soft_hca_verbs::CmEvent;

use crate::calls;
use crate::cause::sentence;
use crate::entry::{Direction, Entry, Header, Role, What};
use crate::value::{Name, Named, Value};
use crate::words;

/// Who takes part: a process, or another host of which only packets are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Participant {
    /// The command line, or the other host.
    pub(crate) title: String,
    /// The pid and what else there is to say.
    pub(crate) subtitle: String,
    /// Whether it is a process of this record, which has entries.
    pub(crate) recorded: bool,
}

/// A send work request with all that became of it. Numbers are those of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// `ibv_post_send`.
    pub(crate) posted: Option<usize>,
    /// When it had to wait.
    pub(crate) stalls: Vec<usize>,
    /// When it was executed or failed.
    pub(crate) executed: Option<usize>,
    /// The sender's completion.
    pub(crate) completion: Option<usize>,
    /// Where it went: for a datagram to a group there may be several.
    pub(crate) arrivals: Vec<Arrival>,
    /// It went over the link, where the sender does not see when it arrives.
    pub(crate) over_link: bool,
    /// The participant whose memory an RDMA operation reaches, or that would have received it.
    pub(crate) peer: Option<usize>,
}

impl Transfer {
    /// All its entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = usize> {
        let arrivals = self.arrivals.iter().flat_map(|a| a.receive.into_iter().chain(a.completion));
        let own = self.posted.into_iter().chain(self.stalls.iter().copied());
        own.chain(self.executed).chain(self.completion).chain(arrivals)
    }
}

/// A receive that a message went into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// The participant that receives.
    pub(crate) participant: usize,
    /// The receive as it was seen in its queue.
    pub(crate) receive: Option<usize>,
    /// Its completion.
    pub(crate) completion: Option<usize>,
}

/// Something leads to something else: a call to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// A record's entries, correlated.
#[derive(Debug)]
pub(crate) struct Correlation<'r> {
    pub(crate) header: &'r Header,
    pub(crate) entries: &'r [Entry],
    pub(crate) participants: Vec<Participant>,
    /// The participant of each entry.
    pub(crate) participant: Vec<usize>,
    /// Entries that are not shown: the beginning and the end of a daemon that has done
    /// nothing else.
    pub(crate) aside: Vec<usize>,
    /// Commands that are not shown for another entry of their call stands for them, by that entry.
    pub(crate) beneath: HashMap<usize, Vec<usize>>,
    /// Names of events as the program gets them, where the library gets others.
    pub(crate) fetched: HashMap<usize, CmEvent>,
    /// Whether an entry is such a command.
    pub(crate) is_beneath: Vec<bool>,
    pub(crate) transfers: Vec<Transfer>,
    /// The transfer that an entry is part of.
    pub(crate) transfer: Vec<Option<usize>>,
    pub(crate) flows: Vec<Flow>,
    /// Packets that were sent and have come.
    pub(crate) packets: Vec<Flow>,
    /// The waits that ended, and how: `Wait` and `Woken`.
    pub(crate) waits: Vec<Flow>,
    /// Receives that were given back unused, and the completions by which they were.
    pub(crate) returned: Vec<Flow>,
    /// The number of the work request that an entry is about.
    pub(crate) numbers: Vec<Option<Number>>,
    /// Memory regions, in the order in which they were registered.
    pub(crate) regions: Vec<Region>,
    /// The threads of each participant.
    pub(crate) threads: Threads,
    /// Entries that belong together, each group in the order of time.
    pub(crate) groups: Vec<Vec<usize>>,
    /// The groups that an entry is in.
    pub(crate) groups_of: Vec<Vec<usize>>,
}

impl<'r> Correlation<'r> {
    /// Correlates a record's entries.
    pub(crate) fn new(header: &'r Header, entries: &'r [Entry]) -> Self {
        let packets = packets::pairs(entries);
        let own = packets::own_addresses(entries, &packets);
        let (participants, participant, aside) = participants(entries, &own);
        let beneath = calls::beneath(entries);
        let threads = threads::find(entries, &participant, participants.len());
        let mut is_beneath = vec![false; entries.len()];
        beneath.values().flatten().for_each(|at| is_beneath[*at] = true);
        let mut correlation = Self {
            header,
            entries,
            participants,
            participant,
            aside,
            beneath,
            fetched: calls::fetched(entries),
            is_beneath,
            transfers: Vec::new(),
            transfer: vec![None; entries.len()],
            flows: Vec::new(),
            packets,
            waits: Vec::new(),
            returned: Vec::new(),
            numbers: Vec::new(),
            regions: Vec::new(),
            threads,
            groups: Vec::new(),
            groups_of: Vec::new(),
        };
        links::find(&mut correlation);
        correlation.numbers = numbers::find(&correlation);
        correlation.regions = regions::find(&correlation);
        correlation
    }

    /// The worst entries, in the order of time. Of a work request only its completion counts, if
    /// it has one.
    pub(crate) fn failures(&self) -> Vec<usize> {
        (0..self.entries.len())
            .filter(|&at| words::severity(&self.entries[at]) == words::Severity::Failure)
            .filter(|&at| {
                let is_executed = matches!(self.entries[at].what, What::Executed(_));
                !(is_executed
                    && self.transfer[at].is_some_and(|t| self.transfers[t].completion.is_some()))
            })
            .collect()
    }

    /// An entry as a line; with the number of its work request, and of a completion with that one's reason.
    pub(crate) fn label(&self, at: usize) -> words::Label {
        let mut label = words::label(&self.entries[at]);
        if let Some(number) = self.numbers[at] {
            label.rest = format!("{}: {}", number.text(), label.rest);
        }
        if let Some(event) = self.fetched.get(&at) {
            label.name = event.to_string();
        }
        if label.reason.is_none() {
            label.reason = self.reason(at);
        }
        label
    }

    /// Why a completion is no success, where its work request's execution tells.
    pub(crate) fn reason(&self, at: usize) -> Option<String> {
        let transfer = &self.transfers[self.transfer[at]?];
        let executed = transfer.executed.filter(|_| transfer.completion == Some(at))?;
        match &self.entries[executed].what {
            What::Executed(executed) => executed.reason.as_ref().map(sentence),
            _ => None,
        }
    }
}

/// The participants in the order in which they stand side by side, and each entry's.
fn participants(
    entries: &[Entry],
    own: &BTreeSet<&str>,
) -> (Vec<Participant>, Vec<usize>, Vec<usize>) {
    let mut participants: Vec<Participant> = Vec::new();
    let mut numbers: HashMap<u32, usize> = HashMap::new();
    let mut of_entries = Vec::with_capacity(entries.len());
    for entry in entries {
        let participant = *numbers.entry(entry.process).or_insert_with(|| {
            participants.push(match &entry.what {
                What::ProcessBegan { pid, command, role, host } => Participant {
                    title: match role {
                        Role::Daemon => "soft-hca's daemon".into(),
                        Role::Program => short(command),
                    },
                    subtitle: match host {
                        Some(host) => format!("pid {pid} on {host}"),
                        None => format!("pid {pid}"),
                    },
                    recorded: true,
                },
                _ => Participant {
                    title: format!("process {}", entry.process),
                    subtitle: "began before the recording".into(),
                    recorded: true,
                },
            });
            participants.len() - 1
        });
        of_entries.push(participant);
    }
    let mut others = other_hosts(entries);
    others.retain(|host| !own.contains(host.as_str()));
    let aside = drop_silent(entries, &mut participants, &mut of_entries);
    participants.extend(others.into_iter().map(|host| Participant {
        title: host,
        subtitle: "another host; its side is not in this record".into(),
        recorded: false,
    }));
    client_first(entries, &mut participants, &mut of_entries);
    (participants, of_entries, aside)
}

/// A command line without the folder of its program.
fn short(command: &[String]) -> String {
    let mut words = command.to_vec();
    if let Some(program) = words.first_mut() {
        if let Some(name) = program.rsplit('/').next().filter(|name| !name.is_empty()) {
            *program = name.to_owned();
        }
    }
    words::command_line(&words)
}

/// Hosts that packets came from or went to.
fn other_hosts(entries: &[Entry]) -> Vec<String> {
    let mut hosts: Vec<String> = Vec::new();
    for entry in entries {
        if let Some(host) = other_host(entry) {
            if !hosts.iter().any(|known| known == host) {
                hosts.push(host.to_owned());
            }
        }
    }
    hosts
}

/// The host that a packet came from or went to.
pub(crate) fn other_host(entry: &Entry) -> Option<&str> {
    match &entry.what {
        What::Packet(packet) if packet.direction == Direction::Sent => Some(&packet.to),
        What::Packet(packet) => Some(&packet.from),
        _ => None,
    }
}

/// A daemon that has done nothing of its own needs no lifeline; gives its entries.
fn drop_silent(
    entries: &[Entry],
    participants: &mut Vec<Participant>,
    of_entries: &mut [usize],
) -> Vec<usize> {
    let mut aside = Vec::new();
    for participant in (0..participants.len()).rev() {
        let own: Vec<usize> = (0..entries.len())
            .filter(|&at| of_entries[at] == participant && !aside.contains(&at))
            .collect();
        let silent = own.iter().all(|&at| {
            let is_end = matches!(entries[at].what, What::ProcessEnded { .. });
            is_end || matches!(entries[at].what, What::ProcessBegan { role: Role::Daemon, .. })
        });
        if silent && participants.len() > 1 {
            participants.remove(participant);
            for of in of_entries.iter_mut() {
                *of = if *of > participant { *of - 1 } else { *of };
            }
            own.iter().for_each(|&at| of_entries[at] = 0);
            aside.extend(own);
        }
    }
    aside
}

/// Those who ask for a connection stand left, as on the course's slides. Of two of whom none does, such as where
/// queue pairs are brought up by hand, the client is who came later: it finds the server there.
fn client_first(entries: &[Entry], participants: &mut Vec<Participant>, of_entries: &mut [usize]) {
    let mut asks = vec![false; participants.len()];
    for (entry, of) in entries.iter().zip(of_entries.iter()) {
        asks[*of] |= matches!(&entry.what, What::Call(call) if call.name == "rdma_connect");
    }
    let recorded = participants.iter().filter(|participant| participant.recorded).count();
    if recorded == 2 && !asks.contains(&true) {
        asks[1] = true;
    }
    // Other hosts stay where they are, behind all.
    let mut order: Vec<usize> = (0..participants.len()).collect();
    order.sort_by_key(|&participant| match participants[participant].recorded {
        true => !asks[participant],
        false => true,
    });
    let mut places = vec![0; order.len()];
    for (place, participant) in order.iter().enumerate() {
        places[*participant] = place;
    }
    let all = std::mem::take(participants);
    let mut all: Vec<_> = places.iter().copied().zip(all).collect();
    all.sort_by_key(|(place, _)| *place);
    participants.extend(all.into_iter().map(|(_, participant)| participant));
    of_entries.iter_mut().for_each(|of| *of = places[*of]);
}

/// The first id of the connection manager among values.
fn cm_id(values: &[Named]) -> Option<u32> {
    values.iter().find_map(|Named(_, value)| match value {
        Value::Name(Name::CmId(id)) => Some(*id),
        _ => None,
    })
}

/// The number in a value that names a queue pair.
fn queue_pair(value: &Value) -> Option<u32> {
    match value {
        Value::Name(Name::Qp(qp)) => Some(*qp),
        Value::Number(qp) => u32::try_from(*qp).ok(),
        _ => None,
    }
}
