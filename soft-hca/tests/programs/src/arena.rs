//! A look into a fabric's arena, past the daemon.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use soft_hca_core::arena::{Lock, Mapping};

use crate::place::Place;

/// Kinds of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Of a queue pair's send queue.
    Send,
    /// Of a queue pair's receive queue.
    Receive,
    /// Of a shared receive queue.
    SharedReceive,
    /// Of a completion queue.
    Completion,
    /// Of a process, for the atomics on its memory.
    Atomics,
}

/// A fabric's arena.
#[derive(Debug)]
pub struct Arena {
    mapping: Mapping,
    file: PathBuf,
    /// Queue pairs, shared receive queues and completion queues whose locks are looked at.
    in_use: [Vec<usize>; 3],
}

/// The indices for which something is so.
fn indices<T>(table: &[T], is_so: impl Fn(&T) -> bool) -> Vec<usize> {
    let all = table.iter().enumerate().filter(|(_, entry)| is_so(entry));
    all.map(|(index, _)| index).collect()
}

impl Arena {
    /// The arena of the fabric in a place, which runs.
    pub fn of(place: &Place) -> Self {
        let [daemon] = place.daemons()[..] else { panic!("{:?}", place.daemons()) };
        let files = fs::read_dir(format!("/proc/{daemon}/fd")).unwrap().flatten();
        let is_arena = |path: &PathBuf| {
            fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("/memfd:soft-hca"))
        };
        let file = files.map(|entry| entry.path()).find(is_arena).expect("a daemon has an arena");
        let opened = OpenOptions::new().read(true).write(true).open(&file).unwrap();
        let mapping = Mapping::from_fd(opened.into()).unwrap();
        Self { mapping, file, in_use: Default::default() }
    }

    /// The whole arena, as the fabric's programs have it mapped.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// How many entries of each table are in use.
    pub fn objects(&self) -> Vec<(&'static str, usize)> {
        let arena = &*self.mapping;
        vec![
            ("processes", indices(&arena.procs, |entry| entry.live.load(Relaxed) != 0).len()),
            ("channels", indices(&arena.channels, |entry| entry.live.load(Relaxed) != 0).len()),
            ("completion queues", indices(&arena.cqs, |e| e.live.load(Relaxed) != 0).len()),
            ("shared receive queues", indices(&arena.srqs, |e| e.live.load(Relaxed) != 0).len()),
            ("queue pairs", indices(&arena.qps, |entry| entry.live.load(Relaxed) != 0).len()),
            ("regions and windows", indices(&arena.mrs, |e| e.live.load(Relaxed) != 0).len()),
            ("address handles", indices(&arena.ahs, |entry| entry.live.load(Relaxed) != 0).len()),
            ("memberships", indices(&arena.members, |e| e.live.load(Relaxed) != 0).len()),
        ]
    }

    /// Bytes of memory that the arena takes: tables and rings.
    pub fn bytes(&self) -> u64 {
        fs::metadata(&self.file).unwrap().blocks() * 512
    }

    /// The index of a process.
    pub fn process(&self, pid: u32) -> usize {
        self.find_process(pid).expect("a process that has opened the device")
    }

    /// The index of a process that may have ended.
    pub fn find_process(&self, pid: u32) -> Option<usize> {
        let is_it = |entry: &soft_hca_core::arena::Proc| {
            entry.pid.load(Relaxed) == pid && entry.live.load(Relaxed) != 0
        };
        indices(&self.mapping.procs, is_it).first().copied()
    }

    /// Where the next completion will be in each of a process's queues.
    pub fn filled_to(&self, process: usize) -> Vec<u32> {
        let arena = &self.mapping;
        let is_its = |cq: &&soft_hca_core::arena::Cq| {
            cq.live.load(Relaxed) != 0 && cq.proc.load(Relaxed) as usize == process
        };
        let rings = arena.cqs.iter().filter(is_its).filter_map(|cq| arena.ring(&cq.ring));
        rings.map(|ring| ring.producer()).collect()
    }

    /// Remembers which locks there are now, for [`Arena::held`].
    pub fn note_locks(&mut self) {
        let arena = &*self.mapping;
        self.in_use = [
            indices(&arena.qps, |entry| entry.live.load(Relaxed) != 0),
            indices(&arena.srqs, |entry| entry.live.load(Relaxed) != 0),
            indices(&arena.cqs, |entry| entry.live.load(Relaxed) != 0),
        ];
    }

    /// Kinds of the locks that a process has.
    pub fn held(&self, process: usize) -> Vec<Kind> {
        let arena = &*self.mapping;
        let [qps, srqs, cqs] = &self.in_use;
        let qps = qps
            .iter()
            .map(|&index| &arena.qps[index])
            .flat_map(|qp| [(Kind::Send, &qp.send_lock), (Kind::Receive, &qp.recv_lock)]);
        let srqs = srqs.iter().map(|&index| (Kind::SharedReceive, &arena.srqs[index].lock));
        let cqs = cqs.iter().map(|&index| (Kind::Completion, &arena.cqs[index].lock));
        let atomics = arena.procs.iter().map(|proc| (Kind::Atomics, &proc.atomics));
        let all = qps.chain(srqs).chain(cqs).chain(atomics);
        let is_its = |(_, lock): &(Kind, &Lock)| lock.owner() == Some(process);
        all.filter(is_its).map(|(kind, _)| kind).collect()
    }
}
