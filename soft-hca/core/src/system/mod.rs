//! System calls that several parts need and the standard library has not, each kind in its place.
//! Calls that only one part needs are there.
//!
//! They are made by `libc`. Of the functions that the preloaded library replaces in programs it calls
//! some itself, and most of them by the standard library (`File`, `OwnedFd`, paths): calls that come
//! back have to be expected. Those that must not come back are made by their number, and those for
//! connections to the daemon by `rustix`, which asks the kernel itself (`rpc::socket`).

mod clock;
mod descriptors;
mod event_fd;
mod interface;
mod memory_file;
mod next;
mod page;
mod process;
mod random;

use std::io;

pub use clock::{as_ns, clock_ns, duration, now_ns, processor_ns, timespec};
pub use descriptors::pipe;
pub use descriptors::{has_hung_up, hide, keep_across_exec};
pub use event_fd::take_token;
pub use interface::interface_number;
pub use memory_file::{memory_file, seal_size};
pub use next::Next;
pub use page::page_bytes;
pub use process::set_time_slice;
pub use process::{allow_peers, is_readable, user};
pub use random::random;

/// The result of a call that is -1 where it fails.
pub fn check(ret: libc::c_int) -> io::Result<libc::c_int> {
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(ret) }
}
