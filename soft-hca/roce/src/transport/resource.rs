//! The last reads, atomics and flushes that a responder has executed. It keeps as many as the peer
//! may have outstanding. A duplicate of one of them gets its response again; other duplicates of
//! such requests are dropped.
//!
//! Otherwise a sender that knows a key could have all memory behind it sent again and again: a
//! duplicate does not wait for its turn among requests, and its response may be long.
//!
//! Sources: IBTA volume 1, 9.7.5.1.2 and oA19-14; `rxe_resp.c find_resource`, `duplicate_request`.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use super::attributes::Mtu;
use super::request::MAX_MESSAGE;
use crate::wire::bth::Psn;
use crate::wire::headers::Reth;
use crate::wire::opcode::Operation;

/// The result of an atomic operation or a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Outcome {
    Original(u64),
    Done,
}

/// A request that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Resource {
    /// Its PSN; of a read the first one.
    psn: Psn,
    request: Operation,
    /// Its result; a read has none, since it is executed anew.
    outcome: Option<Outcome>,
}

/// The response to a duplicate request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// These bytes of a read.
    Read(Reth),
    /// The result of a request that is executed only once.
    Outcome(Outcome),
}

/// The last requests that a duplicate can be of, oldest first.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Resources(VecDeque<Resource>);

impl Resources {
    /// Keeps a request that was executed, and drops the oldest one if there were `most` already.
    pub(super) fn keep(
        &mut self,
        psn: Psn,
        request: Operation,
        outcome: Option<Outcome>,
        most: u8,
    ) {
        if self.0.len() >= usize::from(most) {
            self.0.pop_front();
        }
        self.0.push_back(Resource { psn, request, outcome });
    }

    /// The response to a duplicate request; `None` unless a kept request has this PSN and is the
    /// same, or a kept read has these bytes from this PSN on.
    pub(super) fn again(&self, psn: Psn, request: Operation, mtu: Mtu) -> Option<Again> {
        // PSNs come again, so the last request with this one is meant.
        self.0.iter().rev().find_map(|kept| {
            let before = u32::try_from(psn.distance(kept.psn)).ok()?;
            match (kept.request, request, kept.outcome) {
                (Operation::ReadRequest(whole), Operation::ReadRequest(part), _) => {
                    is_part(whole, part, before, mtu).then_some(Again::Read(part))
                }
                (whole, _, Some(outcome)) => {
                    (before == 0 && whole == request).then_some(Again::Outcome(outcome))
                }
                _ => None,
            }
        })
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether a responder can keep these requests, which are read from bytes that may be made up.
    pub(super) fn is_possible(&self, most: u8) -> bool {
        let fits = |kept: &Resource| match kept.request {
            Operation::ReadRequest(reth) => reth.length <= MAX_MESSAGE,
            _ => kept.outcome.is_some(),
        };
        self.len() <= usize::from(most) && self.0.iter().all(fits)
    }
}

/// Whether a read asks only for bytes that another one has from its packet `before` on.
fn is_part(whole: Reth, part: Reth, before: u32, mtu: Mtu) -> bool {
    if before >= mtu.packets(whole.length) {
        return false;
    }
    let skipped = before * mtu.bytes();
    part.rkey == whole.rkey
        && part.address == whole.address.wrapping_add(skipped.into())
        && part.length <= whole.length - skipped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::headers::AtomicEth;

    #[test]
    fn the_last_request_with_a_number_is_meant() {
        let add = Operation::FetchAdd(AtomicEth::default());
        let mut resources = Resources::default();
        for original in 1..4 {
            resources.keep(Psn::new(5), add, Some(Outcome::Original(original)), 2);
        }
        let again = resources.again(Psn::new(5), add, Mtu::B256);
        assert_eq!(again, Some(Again::Outcome(Outcome::Original(3))));
        assert_eq!(resources.len(), 2);
    }
}
