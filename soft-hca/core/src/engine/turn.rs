//! Which requests of a send queue are executed in a step, and what is done with their bytes.

/// Treatment of the bytes of the request at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bytes {
    /// They are moved.
    Move,
    /// They have been moved already.
    Moved,
    /// They are lost on the way, if the request is a datagram.
    Lost,
    /// They are moved after those of the step's other requests, if these are datagrams.
    Overtaken,
}

/// A step's share of a send queue. Only a queue whose requests are put off (`schedule`) has another
/// than that of [`Turn::at_once`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Requests from the head on, at most.
    pub limit: u32,
    /// Treatment of the bytes of the request at the head, which is alone if they are moved already or lost.
    pub bytes: Bytes,
}

impl Turn {
    /// The next requests, executed at once.
    pub(super) fn at_once(limit: u32) -> Self {
        Self { limit, bytes: Bytes::Move }
    }
}
