//! Names in place of numbers, in the order in which these are shown.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;

use soft_hca_verbs::Cause;

use crate::Header;
use crate::arguments::text;
use crate::cause::check;
use crate::description::GROUP;
use crate::entry::{Call, Entry, Outcome, What};
use crate::model::Region;
use crate::value::{Name, Named, Value};
use crate::words::Names;

/// Numbers below this are a program's own choice, and the same in every run.
const SMALL: u64 = 1 << 16;
/// The first port that Linux takes where a program leaves it the choice.
const FIRST_CHOSEN_PORT: u16 = 32768;

/// A number, and the process that it belongs to if it is not the whole fabric's.
type Key = (Option<u32>, Name);

/// Names that were given, and what has to be known to give them.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// By the number and how often it was given to an object before.
    names: HashMap<(Key, usize), String>,
    /// Those of processes.
    processes: HashMap<u32, String>,
    counts: HashMap<&'static str, u32>,
    /// Indices of the entries by which a number became an object's: numbers are used again.
    births: HashMap<Key, BTreeSet<usize>>,
    /// All that were registered, in their order.
    regions: Vec<Region>,
    /// The device's GIDs, and their names.
    gids: Vec<String>,
    own_gids: HashMap<usize, String>,
    /// A program has left it to the system to choose a port.
    has_chosen_ports: bool,
    /// Index of the entry that is shown.
    at: usize,
    /// The process whose names of work requests are chance in this entry.
    hidden: Option<u32>,
}

fn key(process: u32, name: Name) -> Key {
    // Others name these, too.
    let is_shared = matches!(name, Name::Qp(_) | Name::Key(_) | Name::Psn(_) | Name::Port(_));
    ((!is_shared).then_some(process), name)
}

impl Given {
    pub(super) fn new(
        header: &Header,
        entries: &[Entry],
        processes: HashMap<u32, String>,
        regions: Vec<Region>,
    ) -> Self {
        let gids = header.gids.clone();
        let mut given = Self { processes, regions, gids, ..Self::default() };
        for (index, entry) in entries.iter().enumerate() {
            match &entry.what {
                What::Call(call) => given.learn(index, entry.process, call),
                What::ConnectionEvent(event) if event.listen_id.is_some() => {
                    given.is_born(index, entry.process, Name::CmId(event.id));
                }
                _ => {}
            }
        }
        given
    }

    fn is_born(&mut self, index: usize, process: u32, name: Name) {
        self.births.entry(key(process, name)).or_default().insert(index);
    }

    fn learn(&mut self, index: usize, process: u32, call: &Call) {
        let Outcome::Done(values) = &call.result else { return };
        for Named(_, value) in values {
            if let Value::Name(name) = value {
                self.is_born(index, process, *name);
            }
        }
        if call.name == "rdma_bind_addr" {
            let chosen = text(&call.args, "addr").and_then(port) == Some(0);
            self.has_chosen_ports |= chosen;
        }
    }

    /// Names are wanted for an entry; there the names of a process's receives may be chance.
    pub(super) fn begin(&mut self, index: usize, hidden: Option<u32>) {
        (self.at, self.hidden) = (index, hidden);
    }

    /// The place of an address in a region.
    fn place(&mut self, process: u32, address: u64) -> Option<String> {
        let is_in = |region: &&Region| {
            let (start, end) = region.range;
            region.process == process
                && region.at < self.at
                && (start..end.max(start + 1)).contains(&address)
        };
        let Region { object: mr, range: (start, _), .. } = *self.regions.iter().rfind(is_in)?;
        let name = self.name(process, mr);
        Some(match address - start {
            0 => format!("{name}:"),
            offset => format!("{name}:+{offset}"),
        })
    }

    /// How often a number has been given to an object so far. Before the first time it is nobody's, or
    /// what others are told of the object that is to come.
    fn incarnation(&self, key: Key) -> usize {
        let born = self.births.get(&key);
        born.map_or(0, |births| births.range(..=self.at).count().saturating_sub(1))
    }

    /// An address of a socket whose port the system has chosen.
    fn address(&mut self, text: &str) -> Option<String> {
        let chosen = self.chosen(port(text)?)?;
        let (host, _) = text.rsplit_once(':')?;
        Some(format!("{host}:{chosen}"))
    }

    fn chosen(&mut self, port: u16) -> Option<String> {
        let is_chosen = self.has_chosen_ports && port >= FIRST_CHOSEN_PORT;
        is_chosen.then(|| self.name(0, Name::Port(port)))
    }

    /// A command line, in which there may be such a port.
    pub(super) fn command(&mut self, words: &[String]) -> String {
        let mut named = Vec::new();
        for word in words {
            let port = word.parse().ok().and_then(|port| self.chosen(port));
            named.push(port.unwrap_or_else(|| word.clone()));
        }
        named.join(" ")
    }

    /// A GID of the device itself.
    fn own_gid(&mut self, index: usize) -> String {
        let next = self.own_gids.len() + 1;
        self.own_gids.entry(index).or_insert_with(|| format!("gid{next}")).clone()
    }

    /// The name of a number, or the next of its kind.
    fn counted(&mut self, kind: &'static str, key: Key) -> String {
        let key = (key, self.incarnation(key));
        if let Some(known) = self.names.get(&key) {
            return known.clone();
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let given = format!("{kind}{count}");
        self.names.insert(key, given.clone());
        given
    }
}

/// The port of a socket's address.
fn port(address: &str) -> Option<u16> {
    address.parse().ok().map(|address: SocketAddr| address.port())
}

impl Names for Given {
    fn name(&mut self, process: u32, name: Name) -> String {
        match name {
            Name::WrId(_) if self.hidden == Some(process) => return "any".into(),
            Name::WrId(number) if number < SMALL => return number.to_string(),
            Name::Key(0) => return "0".into(),
            Name::Qp(GROUP) => return "group".into(),
            Name::Address(address) => {
                if let Some(place) = self.place(process, address) {
                    return place;
                }
            }
            _ => {}
        }
        self.counted(name.kind(), key(process, name))
    }

    fn process(&self, process: u32) -> String {
        self.processes.get(&process).cloned().unwrap_or_default()
    }

    fn text(&mut self, text: &str) -> String {
        match self.gids.iter().position(|gid| gid == text) {
            Some(index) => self.own_gid(index),
            None => self.address(text).unwrap_or_else(|| text.into()),
        }
    }

    fn gid_index(&mut self, index: i64) -> String {
        let index = usize::try_from(index).ok().filter(|index| *index < self.gids.len());
        index.map_or_else(|| "none".into(), |index| format!("{}'s", self.own_gid(index)))
    }

    fn imm(&mut self, imm: u32) -> String {
        // Some programs tell their queue pair's number so.
        let name = Name::Qp(imm);
        let is_known = self.births.contains_key(&key(0, name));
        if is_known { self.name(0, name) } else { format!("{imm:#x}") }
    }

    fn cause(&self, cause: &Cause) -> String {
        check(cause).into()
    }
}
