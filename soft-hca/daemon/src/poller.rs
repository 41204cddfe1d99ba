//! Waits for any of many descriptors.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use soft_hca_core::system;

/// Something that is ready for the daemon's main loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// A client wants to connect.
    Listener,
    /// A file has a request, or was closed.
    File(u32),
    /// A process has ended.
    Process(usize),
    /// The link to other hosts has something.
    Link,
    /// Somebody opens a file of a counter.
    Counters,
}

/// Does not wait.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Whether a descriptor is readable now.
pub(crate) fn is_readable(fd: &impl AsFd) -> bool {
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&AT_ONCE)) == Ok(1)
}

/// The descriptors that are waited for, each with a name.
#[derive(Debug)]
pub(crate) struct Poller<N> {
    epoll: OwnedFd,
    names: HashMap<RawFd, N>,
}

impl<N: Copy> Poller<N> {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, names: HashMap::new() })
    }

    pub(crate) fn add(&mut self, fd: impl AsFd, name: N) -> io::Result<()> {
        let number = fd.as_fd().as_raw_fd();
        let data = epoll::EventData::new_u64(number.unsigned_abs().into());
        epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN)?;
        self.names.insert(number, name);
        Ok(())
    }

    pub(crate) fn remove(&mut self, fd: impl AsFd) {
        if self.names.remove(&fd.as_fd().as_raw_fd()).is_some() {
            let _ = epoll::delete(&self.epoll, fd);
        }
    }

    /// Whether something is ready now.
    pub(crate) fn is_ready(&self) -> bool {
        is_readable(&self.epoll)
    }

    /// Waits until something is ready or the deadline (`CLOCK_MONOTONIC` nanoseconds) has come.
    pub(crate) fn wait(&mut self, deadline_ns: Option<u64>) -> io::Result<Vec<N>> {
        let timeout = deadline_ns.map(|deadline| {
            let left = deadline.saturating_sub(system::now_ns());
            Timespec {
                tv_sec: (left / 1_000_000_000) as i64,
                tv_nsec: (left % 1_000_000_000) as i64,
            }
        });
        let mut events = [MaybeUninit::uninit(); 64];
        let ready = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((ready, _)) => ready,
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let names = ready.iter().map(|event| self.names.get(&(event.data.u64() as RawFd)));
        Ok(names.flatten().copied().collect())
    }
}
