//! The way to a peer.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

use crate::arena::{Arena, Qp};

/// Which way leads to a peer. It is decided for a connected queue pair when it gets its address
/// vector, which is with the change to RTR, for datagrams when an address handle is created, and
/// anew when a port goes down or comes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To queue pairs of this fabric: whoever executes a request reaches them in the arena.
    Local,
    /// To another host: the link's thread executes requests.
    Remote,
    /// To a group, and by the link to its members of this fabric, too.
    MulticastLoopback,
    /// To nobody: no port has the LID, or one on the way is down.
    Nowhere,
}

impl Route {
    /// The one that was stored in [`Qp::route`] or [`Ah::route`]; `None` if there is no such.
    ///
    /// [`Ah::route`]: crate::arena::Ah::route
    pub(crate) fn load(field: &AtomicU32) -> Option<Self> {
        match field.load(Acquire) {
            0 => Some(Self::Local),
            1 => Some(Self::Remote),
            2 => Some(Self::MulticastLoopback),
            3 => Some(Self::Nowhere),
            _ => None,
        }
    }

    /// Stores it in an entry of the arena.
    pub fn store(self, field: &AtomicU32) {
        let word = match self {
            Self::Local => 0,
            Self::Remote => 1,
            Self::MulticastLoopback => 2,
            Self::Nowhere => 3,
        };
        field.store(word, Release);
    }
}

/// The queue pair that this one is connected to, if it is one of this fabric.
pub(super) fn local_peer<'a>(arena: &'a Arena, qp: &Qp) -> Option<&'a Qp> {
    match Route::load(&qp.route)? {
        Route::Local => arena.qp(qp.dest_qpn.load(Acquire)),
        Route::Remote | Route::MulticastLoopback | Route::Nowhere => None,
    }
}
