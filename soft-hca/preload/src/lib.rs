//! The symbols that a program's calls meet before the C library's: those by which it reaches
//! device files. Every call that is not about one of ours goes on to the C library.
//!
//! Blocking happens here and nowhere else, in functions that hold nothing at that moment: a
//! program may cancel a thread that waits (`pthread_cancel`), which ends these functions midway.
//!
//! From the outside in:
//!
//! | module | what it is |
//! | --- | --- |
//! | `start`, `exit` | the begin and the end of a process |
//! | `netlink` | `socket` and `send` of netlink's RDMA family |
//! | `sockets` | `recv` and its kin, for sanitizers |
//! | `events` | `read`, `write`, `ioctl`: commands and events |
//! | `files` | `open`, `stat` and their kin: device files that are not there |
//! | `descriptors` | `close`, `dup` and their kin: how long a device file stays open |
//! | `folders`, `links` | folders and links of the tree that stands for `/sys` |
//! | `sysfs` | paths of that tree |
//! | `acknowledge`, `address_handle`, `registration` | functions of librdmacm and libibverbs |
//! | `libnl` | the beginning of a library, for MemorySanitizer |
//! | `signals` | a program's handlers for faults |
//! | `faults` | what the library that has calls fail tells |
//! | `waits` | `poll`, `epoll_wait` and their kin: waits for completion events |
//! | `sleeps` | `nanosleep`, `select` and their kin, of programs that are run strictly |
//! | `client` | what stands behind the descriptors |
//! | `real` | the C library's own functions |
//!
//! A module uses those below it.
#![allow(unsafe_code, reason = "functions that C programs call")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the contracts are those of the C library's functions"
)]

mod acknowledge;
mod address_handle;
mod client;
mod descriptors;
mod events;
mod exit;
mod faults;
mod files;
mod folders;
mod libnl;
mod links;
mod netlink;
mod real;
mod registration;
mod signals;
mod sleeps;
mod sockets;
mod start;
mod sysfs;
mod waits;

use soft_hca_core::errno::Errno;

use crate::client::put_off;

/// Sets errno and gives -1.
fn fail(error: Errno) -> libc::c_int {
    // SAFETY: `errno` is this thread's own, and lives as long as the thread.
    unsafe { *libc::__errno_location() = error.number() };
    -1
}

/// Our part of a call. What the system refuses meanwhile is no business of the program, which may
/// look at an errno from before: a call that succeeds leaves it alone. Nor does a cancellation of
/// the thread end it midway.
fn aside<T>(ours: impl FnOnce() -> T) -> T {
    keeping_errno(|| put_off(ours))
}

/// The part of [`aside`] that a doorbell needs: on its way it only talks to the daemon where
/// that puts a cancellation off itself.
fn keeping_errno<T>(ours: impl FnOnce() -> T) -> T {
    // SAFETY: `errno` is this thread's own, and lives as long as the thread.
    let before = unsafe { *libc::__errno_location() };
    let value = ours();
    // SAFETY: `errno` is this thread's own, and lives as long as the thread.
    unsafe { *libc::__errno_location() = before };
    value
}
