//! Tells a process from its children without a system call: a page that `fork` empties. Asking
//! for the process's id at every doorbell would cost a tenth of a small message.
#![allow(unsafe_code, reason = "a page that fork empties")]

use std::process;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use soft_hca_core::system::page_bytes;

/// Marks the process that has made it, and no other. Never freed.
#[derive(Debug)]
pub(crate) struct Identity {
    pid: u32,
    /// Not 0 in the process itself; `None` where the system cannot empty pages.
    word: Option<&'static AtomicU32>,
}

impl Identity {
    /// The identity of this process.
    pub(crate) fn new() -> Self {
        Self { pid: process::id(), word: wiped_word() }
    }

    /// Whether this is the process that has made it, and no child of it by `fork`.
    pub(crate) fn is_mine(&self) -> bool {
        match self.word {
            Some(word) => word.load(Relaxed) != 0,
            None => self.pid == process::id(),
        }
    }
}

fn wiped_word() -> Option<&'static AtomicU32> {
    // SAFETY: a new mapping at an address of the system's choice.
    let base = unsafe {
        libc::mmap(
            ptr::null_mut(),
            page_bytes(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: only changes what children find in the page mapped above.
    if unsafe { libc::madvise(base, page_bytes(), libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: nobody knows of the page yet.
        unsafe { libc::munmap(base, page_bytes()) };
        return None;
    }
    // SAFETY: aligned, accessed through this atomic only, and never unmapped.
    let word = unsafe { AtomicU32::from_ptr(base.cast()) };
    word.store(1, Relaxed);
    Some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_mine_in_child(mark: &Identity) -> bool {
        // SAFETY: the child looks at a word, or asks for its id, and leaves.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child without anything of the parent's being run.
            unsafe { libc::_exit(i32::from(mark.is_mine())) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status));
        libc::WEXITSTATUS(status) != 0
    }

    #[test]
    fn children_do_not_have_it() {
        let mark = Identity::new();
        assert!(!is_mine_in_child(&mark));
        assert!(mark.is_mine());
        let by_id = Identity { pid: process::id(), word: None };
        assert!(!is_mine_in_child(&by_id));
        assert!(by_id.is_mine());
    }
}
