//! Whose memory this is: a child of `vfork` runs in that of its parent, and what it does to its
//! descriptors before it becomes another program must leave no trace here. Python's `subprocess`
//! for one closes all descriptors there.
#![allow(unsafe_code, reason = "what a child of vfork does to its parent's memory")]

use std::process;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The process whose memory this is; 0 as long as it does not matter.
static OWNER: AtomicU32 = AtomicU32::new(0);

extern "C" fn claim() {
    OWNER.store(process::id(), Relaxed);
}

/// Starts to tell children of `vfork` apart. Those of `fork` own their copy.
pub(crate) fn remember() {
    static REMEMBERED: Once = Once::new();
    REMEMBERED.call_once(|| {
        claim();
        // SAFETY: the handler stores one number, and this library is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(claim)) };
    });
}

/// Whether the caller only borrows this memory.
pub(crate) fn borrowed() -> bool {
    let owner = OWNER.load(Relaxed);
    owner != 0 && owner != process::id()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exit status of a child that leaves with the given function's answer.
    fn in_child(child: libc::pid_t, answer: fn() -> bool) -> Option<i32> {
        if child == 0 {
            let status = i32::from(answer());
            // SAFETY: ends the child without anything of the parent's being run.
            unsafe { libc::_exit(status) };
        }
        let mut status = 0;
        // SAFETY: waits for the child that the caller has made.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        (waited == child && libc::WIFEXITED(status)).then(|| libc::WEXITSTATUS(status))
    }

    #[test]
    fn a_child_of_fork_owns_its_memory() {
        remember();
        assert!(!borrowed());
        // SAFETY: the child asks for its id and leaves.
        let child = unsafe { libc::fork() };
        assert_eq!(in_child(child, borrowed), Some(0));
    }

    #[test]
    fn a_child_of_vfork_does_not() {
        extern "C" fn child(_: *mut libc::c_void) -> i32 {
            i32::from(borrowed())
        }
        remember();
        let mut stack = vec![0u128; 4096];
        // SAFETY: the end of the stack just made.
        let top = unsafe { stack.as_mut_ptr().add(4096) };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: as `vfork`, on a stack of its own; this thread goes on when the child has gone.
        let child = unsafe { libc::clone(child, top.cast(), flags, std::ptr::null_mut()) };
        assert_eq!(in_child(child, borrowed), Some(1));
    }
}
