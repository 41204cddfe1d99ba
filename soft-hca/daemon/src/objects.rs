//! The daemon's own table of objects. Programs can write to the arena's tables, so whom the
//! daemon tells of an object, and what it frees with it, does not depend on them.

use soft_hca_core::uapi::uverbs::request::QpDest;

use crate::counters::Counts;
use crate::migration;

/// A memory region or window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MrObject {
    /// A window.
    pub is_window: bool,
    /// Its key, 0 until it has one.
    pub key: u32,
}

/// A completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CqObject {
    /// The file that asynchronous events go to.
    pub file: u32,
    /// The program's name for it.
    pub user_handle: u64,
    /// Index and generation of its completion channel.
    pub channel: Option<(usize, u32)>,
}

/// A shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SrqObject {
    /// The file that asynchronous events go to.
    pub file: u32,
    /// The program's name for it.
    pub user_handle: u64,
    /// Protection domain.
    pub pd: u32,
    /// SGEs of a receive, at most.
    pub max_sge: u32,
}

/// An address handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AhObject {
    /// Index of its device in the fabric.
    pub device: usize,
    /// Where it leads.
    pub dest: QpDest,
}

/// A path of a connected queue pair, as its program has set it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path {
    /// The port that it begins at.
    pub port_num: u8,
    /// Index of its partition key in that port's table.
    pub pkey_index: u16,
    /// Where it leads.
    pub dest: QpDest,
    /// How long an acknowledgement may take: 4.096 us times two to the power of this. Of the
    /// primary path the arena's entry has it.
    pub timeout: u8,
}

impl Path {
    /// Whether its program has given it an address vector.
    pub(crate) fn has_vector(&self) -> bool {
        self.dest != QpDest::default()
    }
}

/// A queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QpObject {
    /// Its number.
    pub qpn: u32,
    /// `ibv_qp_type`.
    pub qp_type: u32,
    /// The file that asynchronous events go to.
    pub file: u32,
    /// The program's name for it.
    pub user_handle: u64,
    /// Protection domain.
    pub pd: u32,
    /// Indices of the completion queues for sends and for receives.
    pub cqs: [usize; 2],
    /// Index of the shared receive queue, if it uses one.
    pub srq: Option<usize>,
    /// Every send completes visibly.
    pub sq_sig_all: u8,
    /// Bytes of inline data, at most.
    pub max_inline: u32,
    /// SGEs of a send, at most.
    pub max_send_sge: u32,
    /// SGEs of a receive, at most.
    pub max_recv_sge: u32,
    /// Index of its device in the fabric.
    pub device: usize,
    /// The path that it uses.
    pub path: Path,
    /// The path that it may migrate to.
    pub alternate: Option<Path>,
    /// How far that is.
    pub migration: migration::State,
    /// Its counts for the ports of former paths.
    pub counted: Counts,
    /// Its peer is on another host.
    pub is_remote: bool,
    /// Its program wants its end, which waits for the link until then. See `Fabric::await_link`.
    pub ends_at_ns: Option<u64>,
}
