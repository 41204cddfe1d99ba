//! The end of a process by `exit`, or by a return from `main`.

use crate::client;
use crate::keeping_errno;

extern "C" fn exits() {
    keeping_errno(client::exits);
}

/// The loader calls what stands here when the process ends in order.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = exits;
