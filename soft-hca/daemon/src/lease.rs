//! Leases on files: who has one is told before another process opens the file, which waits until the
//! lease is given back. `fcntl(2)`, `F_SETLEASE`.
#![allow(unsafe_code, reason = "fcntl, sigprocmask and signalfd")]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use soft_hca_core::system;

/// Becomes readable when somebody wants to open a file of which this process has the lease.
#[derive(Debug)]
pub(crate) struct Notices(OwnedFd);

impl Notices {
    /// From now on the signal for it, which would end the process, is blocked in this thread and in
    /// those that it starts.
    pub(crate) fn new() -> io::Result<Self> {
        let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is initialized by the first call, and lives through the others.
        let fd = unsafe {
            libc::sigemptyset(signals.as_mut_ptr());
            libc::sigaddset(signals.as_mut_ptr(), libc::SIGIO);
            libc::pthread_sigmask(libc::SIG_BLOCK, signals.as_ptr(), std::ptr::null_mut());
            libc::signalfd(-1, signals.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `signalfd` has created it above, and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Forgets the notices that have come: [`is_wanted`] tells of which files.
    pub(crate) fn clear(&self) {
        let mut notice = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        // SAFETY: reads into a structure of that size, which nobody looks at; does not wait.
        while unsafe {
            libc::read(self.0.as_raw_fd(), notice.as_mut_ptr().cast(), size_of_val(&notice))
        } > 0
        {}
    }
}

impl AsFd for Notices {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn set(file: &File, lease: libc::c_int) -> io::Result<()> {
    // SAFETY: a command whose argument is a number.
    system::check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, lease) }).map(drop)
}

/// Takes the lease. `EAGAIN` while somebody else has the file open; others where the file system has
/// no leases.
pub(crate) fn take(file: &File) -> io::Result<()> {
    set(file, libc::F_WRLCK)
}

/// Gives it back, and lets go on who waits. It may be gone already: see [`is_wanted`].
pub(crate) fn give_back(file: &File) {
    let _ = set(file, libc::F_UNLCK);
}

/// Whether somebody waits for a lease that was taken, or it was taken away since that has lasted too
/// long (`/proc/sys/fs/lease-break-time`).
pub(crate) fn is_wanted(file: &File) -> bool {
    // SAFETY: the file is open as long as it is borrowed; the command has no argument.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) != libc::F_WRLCK }
}
