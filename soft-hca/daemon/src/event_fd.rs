//! Event descriptors in semaphore mode: each read takes one token.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use soft_hca_core::system;

use crate::poller;

/// An event descriptor. The daemon and a program share its open file, flags included, so it is
/// never read in a way that could block.
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)?))
    }

    /// Another descriptor of the same open file.
    pub(crate) fn try_clone(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// Adds tokens.
    pub(crate) fn add(&self, tokens: u64) {
        if tokens > 0 {
            // The counter cannot overflow: 2^64 tokens.
            let _ = rustix::io::write(&self.0, &tokens.to_ne_bytes());
        }
    }

    /// Whether there is a token.
    pub(crate) fn is_set(&self) -> bool {
        poller::is_readable(&self.0)
    }

    /// Takes one token if there is one.
    pub(crate) fn take(&self) -> bool {
        system::take_token(self.0.as_raw_fd())
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_one_by_one() {
        let fd = EventFd::new().unwrap();
        assert!(!fd.is_set() && !fd.take());
        fd.add(2);
        assert!(fd.is_set() && fd.take());
        assert!(fd.is_set() && fd.take());
        assert!(!fd.is_set() && !fd.take());
    }
}
