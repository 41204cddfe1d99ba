//! Events that nobody has fetched.

use soft_hca_core::uapi::ucma::EVENT;

use super::id::Key;

/// An event that nobody has fetched.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The id that it counts for; for a connection request that is the listener.
    pub id: Key,
    /// The new id of a connection request.
    pub request: Option<Key>,
    /// The membership that it counts for as well.
    pub membership: Option<u32>,
    /// Its type, and the number of its id.
    pub told: (u32, u32),
    pub bytes: [u8; EVENT],
}

impl Waiting {
    /// The id that it is about: of a connection request the new one.
    pub(super) fn about(&self) -> Key {
        self.request.unwrap_or(self.id)
    }
}
