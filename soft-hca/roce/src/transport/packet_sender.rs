//! Where a queue pair's packets leave.

use thiserror::Error;

use crate::wire::packet::Headers;

/// Not possible now: a lock is held, or there is no room. The queue pair tries again later.
#[derive(Clone, Copy, Debug, Default, Error, PartialEq, Eq)]
#[error("busy")]
pub struct Busy;

/// A way to the peer, such as a socket with the peer's address.
pub trait PacketSender {
    /// Sends packets in this order, all or none of them. For each there are its headers and the
    /// bytes of its payload: [`Headers::build`] lays it out in a buffer, and `fill` then copies all
    /// payloads, each into the slice that has its place. A packet that is lost behind this call is
    /// one that the network has lost.
    ///
    /// There are 64 packets at most, and each fits [`MAX_BYTES`](crate::wire::packet::MAX_BYTES).
    ///
    /// # Errors
    ///
    /// [`Busy`] if there is no room, or what `fill` returns. Then no packet is sent.
    fn send<E: From<Busy>>(
        &mut self,
        packets: impl ExactSizeIterator<Item = (Headers, usize)> + Clone,
        fill: impl FnOnce(&mut [&mut [u8]]) -> Result<(), E>,
    ) -> Result<(), E>;
}
