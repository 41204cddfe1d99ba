//! The processes that take part in the data path.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use soft_hca_core::arena::MAX_PROCS;
use soft_hca_core::engine::LINK;
use soft_hca_core::rpc::Hello;

use crate::poller;
use crate::table::Table;

/// A process, known by its id and the nonce that it has made up.
#[derive(Debug)]
struct Process {
    pid: u32,
    nonce: u64,
    /// Becomes readable when the process has ended.
    pidfd: Option<Arc<OwnedFd>>,
    files: usize,
    has_ended: bool,
}

/// All processes but the daemon itself.
#[derive(Debug)]
pub(crate) struct Processes(Table<Process>);

impl Default for Processes {
    fn default() -> Self {
        Self(Table::new(LINK + 1..MAX_PROCS, 0))
    }
}

impl Processes {
    /// The index of a process that opens a file, and whether it is new. `None` when there are
    /// too many.
    pub(crate) fn open(&mut self, pid: u32, hello: &Hello) -> Option<(usize, bool)> {
        let is_known = |process: &Process| process.pid == pid && process.nonce == hello.nonce;
        if let Some((index, process)) = self.0.iter_mut().find(|(_, process)| is_known(process)) {
            process.files += 1;
            return Some((index, false));
        }
        let process =
            Process { pid, nonce: hello.nonce, pidfd: pidfd(pid), files: 1, has_ended: false };
        Some((self.0.take(process)?, true))
    }

    /// A file of the process was closed. Its index is free once the process has ended, too: until
    /// then a thread of it may be in the data path. True if nothing but this tells of its end.
    pub(crate) fn close(&mut self, index: usize) -> bool {
        let Some(process) = self.0.get_mut(index) else { return false };
        process.files -= 1;
        if process.files == 0 && process.has_ended {
            self.0.release(index);
            return false;
        }
        process.files == 0 && process.pidfd.is_none()
    }

    /// The process has ended.
    pub(crate) fn ended(&mut self, index: usize) {
        if let Some(process) = self.0.get_mut(index) {
            process.has_ended = true;
            if process.files == 0 {
                self.0.release(index);
            }
        }
    }

    /// Descriptors that tell of a process's end, with its index.
    pub(crate) fn pidfd(&self, index: usize) -> Option<BorrowedFd<'_>> {
        self.0.get(index)?.pidfd.as_ref().map(|pidfd| pidfd.as_fd())
    }

    /// The same descriptor, to be kept.
    pub(crate) fn shared_pidfd(&self, index: usize) -> Option<Arc<OwnedFd>> {
        self.0.get(index)?.pidfd.clone()
    }

    /// The process's id.
    pub(crate) fn pid(&self, index: usize) -> Option<u32> {
        self.0.get(index).map(|process| process.pid)
    }

    /// Indices and ids of all processes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.0.iter().map(|(index, process)| (index, process.pid))
    }
}

fn pidfd(pid: u32) -> Option<Arc<OwnedFd>> {
    pidfd_open(Pid::from_raw(pid as i32)?, PidfdFlags::empty()).ok().map(Arc::new)
}

/// Whether the process behind a descriptor has ended.
pub(crate) fn has_ended(pidfd: &OwnedFd) -> bool {
    poller::is_readable(pidfd)
}
