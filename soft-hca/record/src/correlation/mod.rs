//! Correlates a record's entries: what belongs together, which part of a run each is in, and what
//! repeats.
//!
//! - [`model`]: the result
//! - [`links`]: a work request, the receive that it met and both completions; the arming of a completion queue and
//!   the wake-up that follows; a call and the events that it leads to
//! - [`connections`]: a call of the connection manager and the events that it leads to
//! - [`link`]: the same where packets are between
//! - [`numbers`], [`regions`], [`queue_pairs`]: a work request's number, its memory, whose queue pair an entry
//!   is about
//! - [`threads`]: who did it
//! - [`phases`]: setup, connection, messages, teardown
//! - [`rounds`]: parts that repeat, such as the rounds of a ping-pong

mod connections;
mod link;
mod links;
mod model;
mod numbers;
mod packets;
pub(crate) mod phases;
pub(crate) mod queue_pairs;
mod regions;
pub(crate) mod rounds;
mod threads;

use std::collections::{BTreeSet, HashMap};

use soft_hca_verbs::{WcStatus, WrOpcode};

pub(crate) use model::{Correlation, Number, Participant, Region};

use crate::calls;
use crate::cause::sentence;
use crate::entry::{Direction, Entry, Header, Role, What};
use crate::model::Run;
use crate::requests::Request;
use crate::severity::Severity;
use crate::words;

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
            run: Run::default(),
            participants,
            of_process: entries
                .iter()
                .map(|of| of.process)
                .zip(participant.iter().copied())
                .collect(),
            participant,
            aside,
            beneath,
            fetched: calls::fetched(entries),
            is_beneath,
            transfers: Vec::new(),
            transfer: vec![None; entries.len()],
            flows: Vec::new(),
            packets,
            returns: Vec::new(),
            returned: Vec::new(),
            numbers: Vec::new(),
            regions: Vec::new(),
            threads,
            groups: Vec::new(),
            groups_of: Vec::new(),
        };
        links::find(&mut correlation);
        correlation.numbers = numbers::find(&correlation);
        correlation
    }

    /// The send work request that an entry is part of.
    pub(crate) fn transfer_of(&self, at: usize) -> Option<&Request> {
        self.transfer[at].map(|transfer| &self.transfers[transfer])
    }

    /// The participant whose memory an RDMA operation reaches, or that has received a message, or would have.
    pub(crate) fn peer(&self, transfer: &Request) -> Option<usize> {
        let of_process = |process: u32| self.of_process.get(&process).copied();
        if let Some(arrival) = transfer.arrivals.first() {
            return of_process(arrival.process);
        }
        let at = transfer.posted.or(transfer.executed)?;
        let qp = match &self.entries[at].what {
            What::SendPosted(send) => send.qp,
            What::Executed(executed) => executed.qp,
            _ => return None,
        };
        let peer = self.run.peer(qp).and_then(|peer| self.run.qps.get(&peer));
        let connected = peer.and_then(|peer| of_process(peer.process));
        connected.or_else(|| match self.participants.len() {
            2 => Some(1 - self.participant[at]),
            _ => None,
        })
    }

    /// The operation of a work request and its bytes, even if they were not moved.
    pub(crate) fn operation(&self, transfer: &Request) -> Option<(WrOpcode, u64)> {
        match &self.entries[transfer.posted.or(transfer.executed)?].what {
            What::SendPosted(send) => Some((send.opcode, send.length)),
            What::Executed(executed) => Some((executed.opcode, executed.length)),
            _ => None,
        }
    }

    /// A work request on its way, such as `SEND 16 B`.
    pub(crate) fn message(&self, transfer: &Request) -> String {
        self.operation(transfer).map_or(String::new(), |(opcode, length)| {
            format!("{} {}", words::short_opcode(opcode), words::bytes(length))
        })
    }

    /// The worst entries, in the order of time. Of a work request only its completion counts, if
    /// it has one.
    pub(crate) fn failures(&self) -> Vec<usize> {
        (0..self.entries.len())
            .filter(|&at| Severity::of(&self.entries[at]) == Severity::Failure)
            .filter(|&at| {
                let is_executed = matches!(self.entries[at].what, What::Executed(_));
                !(is_executed && self.has_completed(at))
            })
            .collect()
    }

    /// An entry as a line; with the number of its work request, and of a completion with that one's reason.
    pub(crate) fn label(&self, at: usize) -> words::Label {
        let mut label = words::label(&self.entries[at]);
        if let Some(number) = self.numbers[at] {
            label.rest = format!("{}: {}", number.text(), label.rest);
        }
        if self.is_alone(at) {
            label.rest += ", no completion asked for";
        }
        if let Some(event) = self.fetched.get(&at) {
            label.name = event.to_string();
        }
        if label.reason.is_none() {
            label.reason = self.reason(at);
        }
        label
    }

    /// Whether it is the execution of a work request that has succeeded and has no completion.
    fn is_alone(&self, at: usize) -> bool {
        let What::Executed(executed) = &self.entries[at].what else { return false };
        let is_success = executed.status == WcStatus::SUCCESS && executed.reason.is_none();
        is_success && !self.has_completed(at)
    }

    /// Whether the send work request of an entry has a completion.
    pub(crate) fn has_completed(&self, at: usize) -> bool {
        self.transfer_of(at).is_some_and(|transfer| transfer.completion.is_some())
    }

    /// Why a completion is no success, where its work request's execution tells.
    pub(crate) fn reason(&self, at: usize) -> Option<String> {
        let transfer = self.transfer_of(at)?;
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
    if let Some(first) = words.first_mut() {
        *first = Role::Program.program(command).to_owned();
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
