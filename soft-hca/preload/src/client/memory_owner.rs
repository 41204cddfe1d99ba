//! Whose memory this is: a child of `vfork` runs in that of its parent, and what it does to its
//! descriptors before it becomes another program must leave no trace here. Python's `subprocess`
//! for one closes all descriptors there.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The process whose memory this is; 0 before the library is loaded.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Makes the calling process the owner of this memory: it has begun, or is a child of `fork`, which owns its copy.
pub(crate) fn claim() {
    OWNER.store(process::id(), Relaxed);
}

/// Whether the caller only borrows this memory.
pub(crate) fn borrowed() -> bool {
    let owner = OWNER.load(Relaxed);
    owner != 0 && owner != process::id()
}

#[cfg(test)]
mod tests {
    #![allow(unsafe_code, reason = "children that share this process's memory")]

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
        fn is_borrowed_still() -> bool {
            claim();
            borrowed()
        }
        claim();
        assert!(!borrowed());
        // SAFETY: the child asks for its id and leaves.
        let child = unsafe { libc::fork() };
        assert_eq!(in_child(child, is_borrowed_still), Some(0));
    }

    #[test]
    fn a_child_of_vfork_does_not() {
        extern "C" fn child(_: *mut libc::c_void) -> i32 {
            i32::from(borrowed())
        }
        claim();
        let mut stack = vec![0u128; 4096];
        // SAFETY: the end of the stack just made.
        let top = unsafe { stack.as_mut_ptr().add(4096) };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: as `vfork`, on a stack of its own; this thread goes on when the child has gone.
        let child = unsafe { libc::clone(child, top.cast(), flags, std::ptr::null_mut()) };
        assert_eq!(in_child(child, borrowed), Some(1));
    }
}
