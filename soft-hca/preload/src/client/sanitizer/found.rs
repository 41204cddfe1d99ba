//! The sanitizers of this process, and what they are asked about memory.

use std::ffi::CString;
use std::sync::OnceLock;

use soft_hca_core::config;

use super::address::AddressSanitizer;
use super::memory::MemorySanitizer;
use super::queue::{Queue, Stretch};
use super::thread::{Access, Fiber, ThreadSanitizer};
use crate::client::stderr;

/// The sanitizers of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sanitizers {
    pub thread: Option<ThreadSanitizer>,
    pub address: Option<AddressSanitizer>,
    pub memory: Option<MemorySanitizer>,
}

/// Those that want to know, if there are any.
pub(super) fn sanitizers() -> Option<&'static Sanitizers> {
    static FOUND: OnceLock<Option<Sanitizers>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let (thread, address) = (ThreadSanitizer::find(), AddressSanitizer::find());
        let memory = MemorySanitizer::find();
        let is_any = thread.is_some() || address.is_some() || memory.is_some();
        // Without polls nothing says when an access is over.
        (is_any && config::is_hooked()).then_some(Sanitizers { thread, address, memory })
    });
    found.as_ref()
}

/// More queues than these have no fiber: ThreadSanitizer has a limit of threads.
const FIBERS: usize = 2048;

impl Sanitizers {
    /// A new queue, of so many.
    pub(super) fn queue(&self, before: usize, name: &str) -> Queue {
        Queue::new(self.fiber(before, name))
    }

    /// A fiber for a queue, if there are not too many.
    pub(super) fn fiber(&self, before: usize, name: &str) -> Option<Fiber> {
        let thread = self.thread.filter(|_| before < FIBERS)?;
        let name = CString::new(format!("device: {name}")).expect("a name without NUL");
        Some(thread.fiber(&name))
    }

    /// Looks whether the device may access memory for a request of a queue. It is named as the runtime does not name
    /// it: what is accessed, and by what.
    pub(super) fn check(&self, list: &[Stretch], place: usize, request: impl Fn() -> String) {
        let Some(sanitizer) = &self.address else { return };
        for &Stretch { access, address, length } in list {
            if let Some(bad) = sanitizer.first_bad(address, length.into()) {
                let verb = match access {
                    Access::Read => "reads",
                    Access::Write => "writes",
                };
                stderr::say(&format!(
                    "the device {verb} {length} bytes at {address:#x} for {}, of which {bad:#x} is not the \
                     program's memory any more, or never was",
                    request()
                ));
                sanitizer.report(access, bad, length.into(), place);
            }
        }
    }

    /// Looks whether the program has written what the device reads for a request.
    pub(super) fn check_written(&self, list: &[Stretch], request: impl Fn() -> String) {
        let Some(sanitizer) = &self.memory else { return };
        for &Stretch { access, address, length } in list {
            let length = length.into();
            let unwritten = || sanitizer.first_unwritten(address, length);
            if let Some(offset) = (access == Access::Read).then(unwritten).flatten() {
                stderr::say(&format!(
                    "the device reads {length} bytes at {address:#x} for {}, of which byte {offset} was never written",
                    request()
                ));
                sanitizer.report(address, length);
            }
        }
    }

    /// Bytes that the device has written count as written.
    pub(super) fn are_written(&self, list: &[Stretch]) {
        let Some(sanitizer) = &self.memory else { return };
        for stretch in list.iter().filter(|stretch| stretch.access == Access::Write) {
            sanitizer.are_written(stretch.address, stretch.length.into());
        }
    }
}
