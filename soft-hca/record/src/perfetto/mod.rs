//! A record as a trace of [Perfetto](https://perfetto.dev), whose viewer opens it: track events in
//! protobuf.
//!
//! A process has a track for each of its threads, and one for what others do in its name: the
//! sender's thread that takes its receive, and the daemon. Calls and waits are slices, all else is
//! a moment, with all fields of the entry as its arguments. Arrows (flows) lead from a work
//! request to its execution, from the receive that it met as well, and to both completions.

mod annotation;
mod message;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::description::Description;
use crate::entry::{Entry, Header, What};
use crate::model::Run;
use crate::requests::{Request, Requests};
use message::{
    CLOCK_BOOTTIME, CLOCK_REALTIME, Clock, ClockSnapshot, Data, DebugAnnotation, ProcessDescriptor,
    SEQ_INCREMENTAL_STATE_CLEARED, ThreadDescriptor, Trace, TracePacket, TrackDescriptor,
    TrackEvent, Type,
};
use prost::Message;

/// There is one writer, so there is one sequence; 0 would be none.
const SEQUENCE: u32 = 1;
/// Processes that have no id of their own have one behind all that Linux gives.
const NO_PID: u32 = 1 << 22;

/// The trace of a record: the bytes of a file.
pub fn trace(header: &Header, entries: &[Entry]) -> Vec<u8> {
    packets(header, entries).encode_to_vec()
}

/// Where an event is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Track {
    /// A thread of a process.
    Thread(u32, u32),
    /// Events that others cause for a process.
    Others(u32),
    /// The process's packets.
    Link(u32),
}

/// An event on a track.
#[derive(Debug)]
struct Event {
    t: u64,
    /// Ends of slices are before what begins at the same time, but behind their own beginnings.
    rank: u8,
    track: Track,
    event: TrackEvent,
}

const END: u8 = 0;
const BEGIN: u8 = 1;
const END_AT_ONCE: u8 = 2;

fn packets(header: &Header, entries: &[Entry]) -> Trace {
    let mut requests = Requests::default();
    let mut returns = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        returns.extend(requests.entry(entry).returned.into_iter().map(|from| (from, at)));
    }
    let flows = flows(requests.all());
    let is_wait = |(from, _): &(&usize, &usize)| matches!(entries[**from].what, What::Wait { .. });
    let woken = returns.iter().filter(is_wait).map(|(_, to)| *to).collect();
    let mut events = Events { entries, returns, woken, run: &requests.run, events: Vec::new() };
    for index in 0..entries.len() {
        events.add(index, flows.get(&index).map_or(&[][..], |flows| flows));
    }
    let mut events = events.events;
    events.sort_by_key(|event| (event.t, event.rank));
    let first = TracePacket {
        sequence_flags: Some(SEQ_INCREMENTAL_STATE_CLEARED),
        ..packet(None, clocks(header))
    };
    let tracks = Tracks::new(entries, &events);
    let events = events.into_iter().map(|Event { t, track, mut event, .. }| {
        event.track_uuid = Some(tracks.uuids[&track]);
        packet(Some(t), Data::TrackEvent(event))
    });
    let described =
        tracks.descriptors.into_iter().map(|track| packet(None, Data::TrackDescriptor(track)));
    Trace { packet: [first].into_iter().chain(described).chain(events).collect() }
}

fn packet(timestamp: Option<u64>, data: Data) -> TracePacket {
    TracePacket {
        timestamp,
        trusted_packet_sequence_id: Some(SEQUENCE),
        sequence_flags: None,
        data: Some(data),
    }
}

/// When the record began, for times of the day.
fn clocks(header: &Header) -> Data {
    let clock = |id, nanos| Clock { clock_id: Some(id), timestamp: Some(nanos) };
    let began = header.began_since_1970().as_nanos() as u64;
    let clocks = vec![clock(CLOCK_BOOTTIME, 0), clock(CLOCK_REALTIME, began)];
    Data::ClockSnapshot(ClockSnapshot { clocks })
}

/// The flows of entries by their indices.
fn flows(requests: Vec<Request>) -> HashMap<usize, Vec<u64>> {
    let mut flows = HashMap::<usize, Vec<u64>>::new();
    let mut last = 0;
    for request in requests {
        let (receive, received, stalled) =
            (request.receive(), request.received(), request.stalled());
        let Request { posted, executed, completion, .. } = request;
        // From what has come last before a completion; a receive's may come before the execution,
        // and what has failed before its turn has none.
        let before = |to: Option<usize>| {
            let sources = [executed, stalled, posted].into_iter().flatten();
            sources.filter(|from| to.is_some_and(|to| *from < to)).max()
        };
        let arrows = [
            (posted, stalled.or(executed)),
            (stalled, executed),
            (receive, executed.or(received)),
            (before(received), received),
            (before(completion), completion),
        ];
        for (from, to) in arrows {
            let (Some(from), Some(to)) = (from, to) else { continue };
            last += 1;
            flows.entry(from).or_default().push(last);
            flows.entry(to).or_default().push(last);
        }
    }
    flows
}

struct Events<'r> {
    entries: &'r [Entry],
    /// The entries where calls return that their threads were blocked in, by the calls' own.
    returns: HashMap<usize, usize>,
    /// Those of them where waits end.
    woken: HashSet<usize>,
    run: &'r Run,
    events: Vec<Event>,
}

impl Events<'_> {
    fn add(&mut self, at: usize, flows: &[u64]) {
        let entry = &self.entries[at];
        let track = track(entry);
        let event = event(entry, flows);
        match &entry.what {
            // How long it takes nobody sees: it ends with what its thread does next, or never.
            What::Call(call) if call.unacknowledged > 0 => self.blocked(at, track, event),
            What::Call(call) => {
                self.slice((entry.t, entry.t + call.duration), track, event, Vec::new());
            }
            What::Wait { .. } => self.blocked(at, track, event),
            // Of a wait whose beginning was not recorded a moment remains.
            What::Woken { .. } if self.woken.contains(&at) => {}
            _ => self.push(entry.t, BEGIN, track, event),
        }
    }

    fn push(&mut self, t: u64, rank: u8, track: Track, event: TrackEvent) {
        self.events.push(Event { t, rank, track, event });
    }

    fn slice(
        &mut self,
        (from, to): (u64, u64),
        track: Track,
        mut event: TrackEvent,
        at_end: Vec<DebugAnnotation>,
    ) {
        event.r#type = Some(Type::SliceBegin.into());
        self.push(from, BEGIN, track, event);
        let rank = if from == to { END_AT_ONCE } else { END };
        let (r#type, debug_annotations) = (Some(Type::SliceEnd.into()), at_end);
        self.push(to, rank, track, TrackEvent { debug_annotations, r#type, ..Default::default() });
    }

    /// A call in which its thread was blocked: until it returns, or its process or the record ends.
    fn blocked(&mut self, at: usize, track: Track, event: TrackEvent) {
        let entry = &self.entries[at];
        let end = self.returns.get(&at).map(|end| &self.entries[*end]);
        let of_process = || self.run.processes.get(&entry.process)?.ended;
        let to = end.map(|end| end.t).or_else(of_process).unwrap_or(self.run.last);
        let woken = end.filter(|end| matches!(end.what, What::Woken { .. }));
        let at_end = woken.map(|woken| annotation::of(woken, &Description::of(woken)));
        self.slice((entry.t, to), track, event, at_end.unwrap_or_default());
    }
}

/// The track that an entry is on.
fn track(entry: &Entry) -> Track {
    match (&entry.what, entry.thread) {
        (What::Packet(_), _) => Track::Link(entry.process),
        (_, Some(thread)) => Track::Thread(entry.process, thread),
        (_, None) => Track::Others(entry.process),
    }
}

/// The event of an entry, as a moment.
fn event(entry: &Entry, flows: &[u64]) -> TrackEvent {
    let said = Description::of(entry);
    TrackEvent {
        debug_annotations: annotation::of(entry, &said),
        r#type: Some(Type::Instant.into()),
        track_uuid: None,
        categories: vec![said.category.into()],
        name: Some(said.title.into_owned()),
        flow_ids: flows.to_vec(),
    }
}

impl Track {
    fn process(self) -> u32 {
        match self {
            Self::Thread(process, _) | Self::Others(process) | Self::Link(process) => process,
        }
    }
}

#[derive(Debug, Default)]
struct Tracks {
    descriptors: Vec<TrackDescriptor>,
    uuids: BTreeMap<Track, u64>,
}

impl Tracks {
    fn new(entries: &[Entry], events: &[Event]) -> Self {
        let mut processes = BTreeMap::new();
        let mut pids = Vec::new();
        for entry in entries {
            let What::ProcessBegan { pid, role, command, host } = &entry.what else { continue };
            // Containers number their processes by themselves.
            let pid = if pids.contains(pid) { NO_PID | entry.process } else { *pid };
            pids.push(pid);
            let program = role.program(command);
            let name = match host {
                Some(host) => format!("{program} on {host}"),
                None => program.to_owned(),
            };
            processes.insert(entry.process, (pid, name, command.clone()));
        }
        let mut tracks = Self::default();
        let mut used = events.iter().map(|event| event.track).collect::<Vec<_>>();
        used.sort();
        used.dedup();
        for track in used {
            // Even one whose beginning is missing has a track.
            processes.entry(track.process()).or_insert_with(|| {
                (NO_PID | track.process(), format!("process {}", track.process()), Vec::new())
            });
            tracks.uuids.insert(track, 0);
        }
        for (&process, (pid, name, command)) in &processes {
            let pid = Some(*pid as i32);
            let process_track = tracks.describe(TrackDescriptor {
                process: Some(ProcessDescriptor {
                    pid,
                    cmdline: command.clone(),
                    process_name: Some(name.clone()),
                }),
                ..TrackDescriptor::default()
            });
            let of_process = |track: &Track| track.process() == process;
            for track in tracks.uuids.keys().copied().filter(of_process).collect::<Vec<_>>() {
                let mut descriptor =
                    TrackDescriptor { parent_uuid: Some(process_track), ..Default::default() };
                match track {
                    Track::Thread(_, thread) => {
                        descriptor.thread = Some(ThreadDescriptor {
                            pid,
                            tid: Some(thread as i32),
                            thread_name: Some(name.clone()),
                        });
                    }
                    Track::Others(_) => descriptor.name = Some("done by others".into()),
                    Track::Link(_) => descriptor.name = Some("packets".into()),
                }
                let uuid = tracks.describe(descriptor);
                tracks.uuids.insert(track, uuid);
            }
        }
        tracks
    }

    /// Adds a track. Its number is the count of tracks; 0 is the one that is always there.
    fn describe(&mut self, mut descriptor: TrackDescriptor) -> u64 {
        let uuid = self.descriptors.len() as u64 + 1;
        descriptor.uuid = Some(uuid);
        self.descriptors.push(descriptor);
        uuid
    }
}
