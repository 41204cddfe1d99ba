//! Processes that do not outlive us, and cores.
#![allow(unsafe_code, reason = "children by fork, and processors")]

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::AtomicU32;

use crate::error::{Result, cannot};

/// The two cores that are measured on; `None` with fewer than two: then nothing is pinned.
pub fn cores() -> Option<[usize; 2]> {
    // SAFETY: zeros are a valid, empty set.
    let mut set: libc::cpu_set_t = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: fills the set that it is given, whose size is right.
    let ret = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
    // SAFETY: the index is within the set.
    let is_ours = |core: &usize| ret == 0 && unsafe { libc::CPU_ISSET(*core, &set) };
    let mut ours = (0..libc::CPU_SETSIZE as usize).filter(is_ours);
    Some([ours.next()?, ours.next()?])
}

/// Pins this thread to a core, if there is one to pin it to.
pub fn pin(core: Option<usize>) {
    let Some(core) = core else { return };
    // SAFETY: zeros are a valid, empty set.
    let mut set: libc::cpu_set_t = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the core comes from a set of this size.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: reads a set of this size.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
}

/// Pins a program to a core, and has it killed when we end.
pub fn tie(command: &mut Command, core: Option<usize>) -> &mut Command {
    let tied = move || {
        pin(core);
        die_with_parent();
        Ok(())
    };
    // SAFETY: between fork and exec there are two system calls and nothing else.
    unsafe { command.pre_exec(tied) }
}

fn die_with_parent() {
    // SAFETY: changes an attribute of this process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// A copy of this process that runs one function. Killed when dropped.
#[derive(Debug)]
pub struct Fork {
    /// Its process id.
    pub pid: libc::pid_t,
}

impl Fork {
    /// Starts it. The function must not allocate, as for every child of a process with threads.
    pub fn start(core: Option<usize>, body: impl FnOnce()) -> Result<Self> {
        // SAFETY: the child only runs the function and ends.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(cannot("fork")(io::Error::last_os_error()));
        }
        if pid == 0 {
            die_with_parent();
            pin(core);
            body();
            // SAFETY: ends the child without what the parent would do at its end.
            unsafe { libc::_exit(0) };
        }
        Ok(Self { pid })
    }
}

impl Drop for Fork {
    fn drop(&mut self) {
        // SAFETY: our own child, which nobody has waited for yet.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        // SAFETY: as above; the status is not wanted.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

/// Words that this process and its forks share, each in a cache line pair of its own.
#[derive(Debug)]
pub struct Shared {
    base: *mut libc::c_void,
}

const SHARED_BYTES: usize = 4096;

impl Shared {
    /// Zeroed words.
    pub fn new() -> Result<Self> {
        // SAFETY: a new mapping at an address of the system's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                SHARED_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(cannot("map shared memory")(io::Error::last_os_error()));
        }
        Ok(Self { base })
    }

    /// One of the words.
    pub fn word(&self, index: usize) -> &AtomicU32 {
        let at = self.base.wrapping_byte_add((index * 128) % SHARED_BYTES).cast();
        // SAFETY: within the mapping, aligned, and accessed through atomics only.
        unsafe { AtomicU32::from_ptr(at) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: unmaps what `new` has mapped; words borrow from `self`.
        unsafe { libc::munmap(self.base, SHARED_BYTES) };
    }
}
