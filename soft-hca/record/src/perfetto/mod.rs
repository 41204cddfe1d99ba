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

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::description::Description;
use crate::entry::{Entry, Header, What};
use crate::requests::{Request, requests};
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
    /// What others do for a process.
    Others(u32),
    /// The process's packets.
    Link(u32),
}

/// What is on a track, and when.
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
    let flows = flows(entries);
    let mut events = Events::default();
    for (index, entry) in entries.iter().enumerate() {
        events.add(entry, flows.get(&index).map_or(&[][..], |flows| flows));
    }
    let mut events = events.finish(entries.last().map_or(0, |entry| entry.t));
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
fn flows(entries: &[Entry]) -> HashMap<usize, Vec<u64>> {
    let mut flows = HashMap::<usize, Vec<u64>>::new();
    let mut last = 0;
    for request in requests(entries) {
        let stalled = request.stalled();
        let Request { posted, executed, receive, received, completion, .. } = request;
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

#[derive(Debug, Default)]
struct Events {
    events: Vec<Event>,
    /// Threads that wait.
    waiting: BTreeMap<Track, u32>,
    /// Threads that destroy something, for which they wait.
    destroying: BTreeSet<Track>,
}

impl Events {
    fn add(&mut self, entry: &Entry, flows: &[u64]) {
        if let What::ProcessEnded { .. } = entry.what {
            self.nobody_waits(entry.t, Some(entry.process));
        }
        let track = match (&entry.what, entry.thread) {
            (What::Packet(_), _) => Track::Link(entry.process),
            (_, Some(thread)) => Track::Thread(entry.process, thread),
            (_, None) => Track::Others(entry.process),
        };
        if self.destroying.remove(&track) {
            self.end(entry.t, END, track, Vec::new());
        }
        let said = Description::of(entry);
        let event = TrackEvent {
            debug_annotations: annotation::of(entry, &said),
            r#type: Some(Type::Instant.into()),
            track_uuid: None,
            categories: vec![said.category.into()],
            name: Some(said.title.into_owned()),
            flow_ids: flows.to_vec(),
        };
        match &entry.what {
            // How long it takes nobody sees: it ends with what its thread does next, or never.
            What::Call(call) if call.unacknowledged > 0 => {
                self.begin(entry.t, track, event);
                self.destroying.insert(track);
            }
            What::Call(call) => self.call(entry.t, track, event, call.duration),
            What::Wait { .. } => {
                self.begin(entry.t, track, event);
                *self.waiting.entry(track).or_default() += 1;
            }
            What::Woken { .. } => self.woken(entry.t, track, event),
            _ => self.push(entry.t, BEGIN, track, event),
        }
    }

    fn push(&mut self, t: u64, rank: u8, track: Track, event: TrackEvent) {
        self.events.push(Event { t, rank, track, event });
    }

    fn begin(&mut self, t: u64, track: Track, mut event: TrackEvent) {
        event.r#type = Some(Type::SliceBegin.into());
        self.push(t, BEGIN, track, event);
    }

    fn end(&mut self, t: u64, rank: u8, track: Track, debug_annotations: Vec<DebugAnnotation>) {
        let r#type = Some(Type::SliceEnd.into());
        self.push(t, rank, track, TrackEvent { debug_annotations, r#type, ..Default::default() });
    }

    fn call(&mut self, t: u64, track: Track, event: TrackEvent, duration: u64) {
        self.begin(t, track, event);
        let rank = if duration == 0 { END_AT_ONCE } else { END };
        self.end(t + duration, rank, track, Vec::new());
    }

    /// The end of a wait. Of one whose beginning was not recorded a moment remains.
    fn woken(&mut self, t: u64, track: Track, event: TrackEvent) {
        let Some(waits) = self.waiting.get_mut(&track) else {
            return self.push(t, BEGIN, track, event);
        };
        *waits -= 1;
        if *waits == 0 {
            self.waiting.remove(&track);
        }
        self.end(t, END_AT_ONCE, track, event.debug_annotations);
    }

    /// Ends the waits of a process, or of all.
    fn nobody_waits(&mut self, t: u64, process: Option<u32>) {
        for track in std::mem::take(&mut self.destroying) {
            match process {
                Some(process) if process != track.process() => {
                    self.destroying.insert(track);
                }
                _ => self.end(t, END_AT_ONCE, track, Vec::new()),
            }
        }
        for (track, waits) in std::mem::take(&mut self.waiting) {
            if process.is_some_and(|process| process != track.process()) {
                self.waiting.insert(track, waits);
                continue;
            }
            for _ in 0..waits {
                self.end(t, END_AT_ONCE, track, Vec::new());
            }
        }
    }

    fn finish(mut self, t: u64) -> Vec<Event> {
        self.nobody_waits(t, None);
        self.events
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
