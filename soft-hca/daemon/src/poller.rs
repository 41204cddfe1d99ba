//! Waits for any of many descriptors.
#![allow(unsafe_code, reason = "epoll")]

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use soft_hca_core::system;

/// What is ready for the daemon's main loop.
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

/// The descriptors that are waited for, each with a name.
#[derive(Debug)]
pub(crate) struct Poller<N> {
    epoll: OwnedFd,
    names: HashMap<RawFd, N>,
}

impl<N: Copy> Poller<N> {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: creates a descriptor that is nobody else's.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: created above.
        Ok(Self { epoll: unsafe { OwnedFd::from_raw_fd(fd) }, names: HashMap::new() })
    }

    pub(crate) fn add(&mut self, fd: RawFd, name: N) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: fd as u64 };
        // SAFETY: the event lives through the call.
        let ret =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
        if ret != 0 {
            return Err(io::Error::last_os_error());
        }
        self.names.insert(fd, name);
        Ok(())
    }

    pub(crate) fn remove(&mut self, fd: RawFd) {
        if self.names.remove(&fd).is_some() {
            // SAFETY: takes a descriptor out; no event is needed for that.
            unsafe {
                libc::epoll_ctl(
                    self.epoll.as_raw_fd(),
                    libc::EPOLL_CTL_DEL,
                    fd,
                    std::ptr::null_mut(),
                )
            };
        }
    }

    /// Whether something is ready now.
    pub(crate) fn is_ready(&self) -> bool {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for one event; does not wait.
        unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), &mut event, 1, 0) > 0 }
    }

    /// Waits until something is ready or the deadline (`CLOCK_MONOTONIC` nanoseconds) has come.
    pub(crate) fn wait(&mut self, deadline_ns: Option<u64>) -> io::Result<Vec<N>> {
        let timeout = deadline_ns.map(|deadline| {
            let left = deadline.saturating_sub(system::now_ns());
            libc::timespec {
                tv_sec: (left / 1_000_000_000) as libc::time_t,
                tv_nsec: (left % 1_000_000_000) as libc::c_long,
            }
        });
        let timeout_ptr = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        // SAFETY: room for so many events, and a time limit or none.
        let ready = unsafe {
            libc::epoll_pwait2(
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                events.len() as libc::c_int,
                timeout_ptr,
                std::ptr::null(),
            )
        };
        if ready < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Ok(Vec::new()),
                _ => Err(error),
            };
        }
        let names = events[..ready as usize].iter();
        Ok(names.filter_map(|event| self.names.get(&(event.u64 as RawFd)).copied()).collect())
    }
}
