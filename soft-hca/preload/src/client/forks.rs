//! The handlers for `fork`. The library registers them when it is loaded: a later registration, by one thread of
//! several, would take a lock that a child could find taken.
#![allow(unsafe_code, reason = "handlers for fork")]

use crate::client::{forked, memory_owner, of_process, port_lease};

extern "C" fn prepare() {
    forked::prepare();
}

extern "C" fn parent() {
    forked::parent();
}

extern "C" fn child() {
    of_process::is_forked();
    memory_owner::claim();
    port_lease::close_in_child();
    forked::child();
}

/// Registers the handlers, by which a child of `fork` is told from its parent.
pub(super) fn watch() {
    memory_owner::claim();
    // SAFETY: functions that live as long as the library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}
