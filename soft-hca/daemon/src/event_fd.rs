//! Event descriptors in semaphore mode: each read takes one token.
#![allow(unsafe_code, reason = "event descriptors, which the standard library has not")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use soft_hca_core::system;

/// An event descriptor. The daemon and a program share its open file, flags included, so it is
/// never read in a way that could block.
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: creates a descriptor that is nobody else's.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: created above.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Another descriptor of the same open file.
    pub(crate) fn try_clone(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// Adds tokens.
    pub(crate) fn add(&self, tokens: u64) {
        if tokens > 0 {
            // SAFETY: eight bytes are there. The counter cannot overflow: 2^64 tokens.
            unsafe { libc::write(self.0.as_raw_fd(), (&raw const tokens).cast(), 8) };
        }
    }

    /// Whether there is a token.
    pub(crate) fn is_set(&self) -> bool {
        let mut readable =
            libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry is there; does not wait.
        unsafe { libc::poll(&mut readable, 1, 0) == 1 }
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
