//! Accesses of an operation to memory, and the pairs of them that nothing may leave without an order.

use soft_hca_verbs::WrOpcode;

use crate::entry::{SendPosted, Sge};
use crate::model::{Range, Region, Run, overlap, range};
use crate::value::Name;

/// How memory is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Read,
    Write,
    /// By an atomic operation, which is one for other atomic operations only.
    Atomic,
}

/// The place where a request has the memory from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Its SGEs.
    Own,
    /// The peer's address in it.
    Named,
    /// The receive that has taken its message.
    Receive,
}

/// An access to memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) process: u32,
    pub(super) range: Range,
    pub(super) how: How,
    pub(super) side: Side,
}

impl How {
    /// In words that the bytes follow.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Write => "writes",
            Self::Atomic => "changes",
        }
    }
}

impl Access {
    /// Those of a request as it is posted, whose peer is a queue pair of this process, if that is on record. `is_read`: it
    /// takes bytes from the peer's memory.
    pub(super) fn of_request(
        run: &Run,
        process: u32,
        peer: Option<u32>,
        posted: &SendPosted,
        is_read: bool,
    ) -> Vec<Self> {
        let opcode = posted.opcode;
        let how = if is_read { How::Write } else { How::Read };
        let own = accessed(run, process, &posted.sges, u64::MAX);
        let own = own.map(|range| Self { process, range, how, side: Side::Own });
        let mut all: Vec<Self> = own.collect();
        let how = match opcode {
            WrOpcode::RDMA_READ => How::Read,
            _ if opcode.is_atomic() => How::Atomic,
            _ if opcode.writes() => How::Write,
            _ => return all,
        };
        let length = if opcode.is_atomic() { 8 } else { posted.length };
        let (Some(remote), Some(process)) = (posted.remote, peer) else { return all };
        let range = (remote.address, remote.address.saturating_add(length));
        if length > 0 && is_memory(run, process, remote.rkey, range) {
            all.push(Self { process, range, how, side: Side::Named });
        }
        all
    }

    /// Those of a message of so many bytes that has gone into a receive of a process.
    pub(super) fn of_message(run: &Run, process: u32, sges: &[Sge], length: u64) -> Vec<Self> {
        let filled = accessed(run, process, sges, length);
        filled.map(|range| Self { process, range, how: How::Write, side: Side::Receive }).collect()
    }

    /// Bytes that another access is to, too, if the two clash when they are made by requests of different queues that
    /// nothing orders. What two messages are received into, or a message and a request's own SGEs, is left to
    /// the rule `overlap`.
    pub(super) fn clashes(&self, other: &Self) -> Option<Range> {
        let is_received = self.side == Side::Receive || other.side == Side::Receive;
        let is_named = self.side == Side::Named || other.side == Side::Named;
        let is_harmless = match (self.how, other.how) {
            (How::Read | How::Atomic, How::Read | How::Atomic) => true,
            _ => is_received && !is_named,
        };
        self.shares(other).filter(|_| !is_harmless)
    }

    /// The same if this is of a request that fetches something, and the other one of a request behind it in the same
    /// queue.
    pub(super) fn clashes_with_later(&self, later: &Self) -> Option<Range> {
        let is_fetched = (self.side, self.how) == (Side::Own, How::Write)
            && (later.side, later.how) == (Side::Own, How::Read);
        let is_overtaken = self.side == Side::Named
            && later.side != Side::Own
            && later.how != How::Read
            && (self.how, later.how) != (How::Atomic, How::Atomic);
        self.shares(later).filter(|_| is_fetched || is_overtaken)
    }

    fn shares(&self, other: &Self) -> Option<Range> {
        let is_shared = self.process == other.process && overlap(self.range, other.range);
        is_shared.then(|| (self.range.0.max(other.range.0), self.range.1.min(other.range.1)))
    }
}

/// The first bytes of SGEs that are memory of a process.
fn accessed<'r>(
    run: &'r Run,
    process: u32,
    sges: &'r [Sge],
    length: u64,
) -> impl Iterator<Item = Range> + 'r {
    let mut left = length;
    let filled = sges.iter().map(move |sge| {
        let length = left.min(sge.length.into());
        left -= length;
        (sge.lkey, (sge.address, range(sge).0.saturating_add(length)))
    });
    let memory = filled.filter(move |(key, range)| is_memory(run, process, *key, *range));
    memory.map(|(_, range)| range).filter(|range| range.0 < range.1)
}

/// Whether the addresses of a request that names a key are those of a process's memory. A window's may count from its
/// beginning.
fn is_memory(run: &Run, process: u32, key: u32, bytes: Range) -> bool {
    let has = |region: &Region| {
        region.process == process
            && !region.is_elsewhere
            && region.range.0 <= bytes.0
            && bytes.1 <= region.range.1
    };
    let Some(region) = run.regions.of_key(key) else { return false };
    match region.object {
        Name::Mw(_) => region.process == process && run.regions.of_process(process).any(has),
        _ => has(region),
    }
}
