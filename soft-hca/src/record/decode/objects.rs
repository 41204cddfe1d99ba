//! The objects of a fabric, as the records so far tell.

use std::collections::{HashMap, HashSet};

use soft_hca_record::entry::ReceiveQueue;

/// An object of a process: its descriptor and handle lead to a number of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Handle {
    /// Index of the process.
    pub proc: u32,
    /// The device's descriptor.
    pub fd: i32,
    pub handle: u32,
}

/// The sizes that a queue pair or a shared queue was made for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    pub sends: u32,
    pub send_sges: u32,
    pub receives: u32,
    pub receive_sges: u32,
    /// The capacity that it has, not the one that was requested.
    pub inline: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub cqs: HashMap<Handle, u32>,
    pub qps: HashMap<Handle, u32>,
    pub srqs: HashMap<Handle, u32>,
    /// Of ids, by process and the program's own name: number, and whether they are of datagrams.
    pub ids: HashMap<(u32, u64), (u32, bool)>,
    /// Numbers of ids that are of datagrams.
    pub datagram_ids: HashSet<u32>,
    /// Capacities of queue pairs and shared queues.
    pub limits: HashMap<ReceiveQueue, Limits>,
}
