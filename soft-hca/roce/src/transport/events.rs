//! Errors on the way, be they put right or not, as rxe counts them.

use serde::{Deserialize, Serialize};

/// Something to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Event {
    /// A request came once more (`RXE_CNT_DUP_REQ`).
    DuplicateRequest,
    /// A request came before one that is missing (`RXE_CNT_OUT_OF_SEQ_REQ`).
    OutOfSequenceRequest,
    /// The peer has no receive (`RXE_CNT_RCV_RNR`).
    RnrReceived,
    /// The peer was told that there is no receive (`RXE_CNT_SND_RNR`).
    RnrSent,
    /// The peer says that packets are missing (`RXE_CNT_RCV_SEQ_ERR`).
    SequenceErrorReceived,
    /// The peer has not answered, for good (`RXE_CNT_RETRY_EXCEEDED`).
    RetriesExceeded,
    /// The peer had no receive, for good (`RXE_CNT_RNR_RETRY_EXCEEDED`).
    RnrRetriesExceeded,
    /// Requests are sent once more, since nothing has come in time or the peer misses packets
    /// (`RXE_CNT_COMP_RETRY`).
    Retried,
}

impl Event {
    /// How many kinds there are.
    pub const COUNT: usize = Self::Retried as usize + 1;

    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::DuplicateRequest,
        Self::OutOfSequenceRequest,
        Self::RnrReceived,
        Self::RnrSent,
        Self::SequenceErrorReceived,
        Self::RetriesExceeded,
        Self::RnrRetriesExceeded,
        Self::Retried,
    ];
}

/// How often each has been since it was asked for last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventCounts([u32; Event::COUNT]);

impl EventCounts {
    pub(super) fn count(&mut self, event: Event) {
        let times = &mut self.0[event as usize];
        *times = times.saturating_add(1);
    }

    /// Takes what there is of another one.
    pub(super) fn take(&mut self, other: &mut Self) {
        self.0
            .iter_mut()
            .zip(std::mem::take(other).0)
            .for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }

    /// Which have been, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (Event, u32)> + '_ {
        Event::ALL.into_iter().zip(self.0).filter(|(_, times)| *times > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_in_order() {
        assert!(Event::ALL.iter().enumerate().all(|(number, event)| *event as usize == number));
    }
}
