//! Messages that a queue pair has got: which execution and which completion are of one message.

use std::collections::VecDeque;

/// The most that are remembered: those of a peer on another host never have their other end.
const MOST: usize = 1 << 10;

/// The end of a message that is on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The execution of the request.
    Execution,
    /// The completion of the receive.
    Completion,
}

/// Messages of which one end is on record, the oldest first: the end, the name of the receive, and the entry's number.
/// Either may come before the other.
#[derive(Clone, Debug, Default)]
pub struct Ends(VecDeque<(End, u64, usize)>);

impl Ends {
    /// The entry of an end of a message in the receive of this name, if that is the one on record.
    pub(super) fn take(&mut self, end: End, wr_id: u64) -> Option<usize> {
        let at = self.0.iter().position(|(of, name, _)| (*of, *name) == (end, wr_id))?;
        self.0.remove(at).map(|(.., number)| number)
    }

    /// An end of a message whose other end is not on record yet.
    pub(super) fn add(&mut self, end: End, wr_id: u64, number: usize) {
        self.0.push_back((end, wr_id, number));
        if self.0.len() > MOST {
            self.0.pop_front();
        }
    }
}
