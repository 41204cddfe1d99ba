//! Changes by an entry.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::completion_queue::CompletionQueue;
use super::regions::Region;
use super::send_queue::{Range, Send};
use super::stalled::Stalled;
use crate::place::Place;

/// The reason why a queue pair executes nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It was destroyed.
    Destroyed,
    /// It was reset.
    Reset,
    /// Its program has put it into the error state.
    Shut,
    /// Its process has ended.
    ProcessEnded,
}

/// A queue pair that executes nothing any more.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// Its number.
    pub qp: u32,
    /// Its process.
    pub process: u32,
    /// The reason.
    pub how: Stop,
    /// The request that waited.
    pub stalled: Option<Stalled>,
    /// Requests of which no completion tells what became of them.
    pub unfinished: Option<Unfinished>,
}

/// Sends of a queue pair that were not executed, or that its peer on another host has not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The first one.
    pub wr_id: u64,
    /// When it was posted, and where.
    pub since: u64,
    /// Where.
    pub source: Option<Arc<Place>>,
    /// How many there are.
    pub count: usize,
    /// Its peer is on another host.
    pub is_remote: bool,
}

/// The changes by an entry.
#[derive(Debug, Default)]
pub struct Effect {
    /// The number of the entry in the record, from 0 on.
    pub at: usize,
    /// Where its program has called for it: the entry itself, or the request that it is about.
    pub source: Option<Arc<Place>>,
    /// Queue pairs that execute nothing any more.
    pub stopped: Vec<Stopped>,
    /// The completion is that of a send that was flushed.
    pub flushes_send: bool,
    /// Completions that a poll has given to its program: the entries of each completion and of the poll, one of which
    /// is this one.
    pub polled: Vec<(usize, usize)>,
    /// Sends whose slots the poll has freed, with their queue pairs.
    pub freed: Vec<(u32, Send)>,
    /// Queue pairs whose messages the poll has given, one after the other.
    pub received: Vec<u32>,
    /// The completion queue that was destroyed.
    pub destroyed: Option<(u32, CompletionQueue)>,
    /// Bytes of the receive that another one has, too.
    pub shared: Option<Range>,
    /// The region or window that was registered, or deregistered: then it is gone.
    pub region: Option<Region>,
    /// The registrations of the regions that a request names as it is posted, by their entries' numbers.
    pub uses: BTreeSet<usize>,
    /// An earlier entry of the same work request, or of that whose message has taken the receive, by its number;
    /// there are two where a request meets its receive.
    pub joins: [Option<usize>; 2],
    /// The completion is a receive's.
    pub is_receive: bool,
    /// The entries of calls that threads were blocked in, and return from.
    pub returned: Vec<usize>,
    /// The entries of the arming and of the completion that have led to the event that was taken.
    pub woken_by: Option<(usize, usize)>,
}
