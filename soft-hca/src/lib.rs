//! The `soft-hca` command: programs in a fabric, which it starts if need be, and what one wants to
//! know of it.
//!
//! A program that runs under `soft-hca run` finds a device, `rxe0`, that is not there. Its calls on
//! device files come to the preloaded library; the daemon, one process for all programs of a fabric,
//! is the kernel that they believe to talk to; and what the two share lies in the arena, where the
//! engine moves messages without asking anybody.
//!
//! ```text
//!  program + librdmacm, libibverbs, rxe provider         another program
//!      | open, write, read, mmap                             |
//!  preload --commands over a socket--> daemon <---------- preload
//!      | doorbell                        | retries           | doorbell
//!  engine -----------------------> arena: tables, rings <- engine
//!      `---- payload: process_vm_readv, process_vm_writev ---'
//!            or, where the system forbids that, through the arena
//! ```
//!
//! Each process, and what all have in common, is a crate: `docs/inside.md` names them, and the way of a
//! work request, a command and a packet through them.
//!
//! The modules of this one:
//!
//! - [`run`]: becomes a program in a fabric, which it starts if need be ([`fabric`])
//! - [`seeds`]: runs it strictly until it fails
//! - [`record`]: writes down what happens in a fabric
//! - [`show`]: a record as text, and what went wrong in it; [`export`]: and as a file for
//!   other programs
//! - [`timers`]: how long it takes until a request fails
//! - [`vendor_err`]: what an adapter's number for a failure means
//! - [`check`]: what a program got away with
//! - [`ls`]: shows the fabrics
//! - [`change`]: pulls cables, removes devices
//! - [`doctor`]: finds out whether all this can work here, and whether a program finds the device
//! - [`mod@line`]: how all that is written on a command line
#![deny(unsafe_code)]
#![warn(unreachable_pub)]
#![allow(rustdoc::private_intra_doc_links, reason = "the map is of all modules")]

mod at_once;
pub mod change;
pub mod check;
mod daemonize;
pub mod doctor;
mod elf;
mod error;
pub mod export;
pub mod fabric;
mod folder_lock;
pub mod line;
pub mod ls;
mod outside;
mod preload;
mod rdma_core;
pub mod record;
pub mod run;
mod sanitizer;
mod search;
pub mod seeds;
pub mod show;
mod subjects;
pub mod timers;
pub mod vendor_err;
mod watcher;

pub use error::Error;
use error::{cannot, print};
