//! A queue pair as bytes, so that somebody else goes on with it: another thread or another process
//! that has the same send queue and the same target. Nothing is sent or received twice or lost by
//! that, as long as one of them at a time has it.

use super::attributes::Attributes;
use super::queue_pair::{QueuePair, RequesterHalf, ResponderHalf};
use super::requester::WINDOW;

/// The most bytes of a work request in flight.
const REQUEST_BYTES: usize = 80;
/// Bytes of a response that waits, and of the end of one, at most.
const RESPONSE_BYTES: usize = 44;
/// Bytes of a request that is kept for its duplicates, at most.
const RESOURCE_BYTES: usize = 56;
/// Bytes of each queue pair.
const FIXED_BYTES: usize = 256;

/// The most bytes of [`QueuePair::save`].
pub fn most_bytes(attributes: &Attributes) -> usize {
    let Attributes { max_rd_atomic, max_dest_rd_atomic, .. } = *attributes;
    let resources = usize::from(max_dest_rd_atomic);
    let responses = usize::from(max_rd_atomic) + 4 * resources + 8;
    FIXED_BYTES
        + WINDOW as usize * REQUEST_BYTES
        + responses * RESPONSE_BYTES
        + resources * RESOURCE_BYTES
}

impl QueuePair {
    /// Its state as bytes, in a buffer of [`most_bytes`]; `None` if it is smaller.
    pub fn save<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        postcard::to_slice(self, buffer).ok().map(|bytes| &*bytes)
    }

    /// A queue pair that goes on where [`QueuePair::save`] was called. `None` if no queue pair is in
    /// such a state: whatever the bytes are, what is restored does no more harm than any peer could.
    pub fn restore(bytes: &[u8]) -> Option<QueuePair> {
        let restored: QueuePair = postcard::from_bytes(bytes).ok()?;
        restored.is_possible().then_some(restored)
    }

    fn is_possible(&self) -> bool {
        let requester = self.requester.as_ref().is_none_or(|half| match half {
            RequesterHalf::Reliable(half) => half.is_possible(),
            RequesterHalf::Unreliable(half) => half.is_possible(),
        });
        let is_of_one_service = matches!(
            (&self.requester, &self.responder),
            (None, _)
                | (Some(RequesterHalf::Reliable(_)), ResponderHalf::Reliable(_))
                | (Some(RequesterHalf::Unreliable(_)), ResponderHalf::Unreliable(_))
        );
        let responder = match &self.responder {
            ResponderHalf::Reliable(half) => half.is_possible(),
            ResponderHalf::Unreliable(half) => half.is_possible(),
        };
        requester && is_of_one_service && responder
    }
}
