//! The RDMA part of the kernel in user space, beneath the unmodified rdma-core libraries.
//!
//! A program that runs under `soft-hca run` finds a device, `rxe0`, that is not there. Its calls
//! on device files come to [`client`] (through the preloaded library); [`daemon`], one process for
//! all programs of a fabric, is the kernel that they believe to talk to; and what the two share
//! lies in the [`arena`], where the [`engine`] moves messages without asking anybody.
//!
//! ```text
//!  program + librdmacm, libibverbs, rxe provider        another program
//!      | open, write, read, mmap                            |
//!  client --commands over a socket--> daemon <--------- client
//!      | doorbell                       | retries           | doorbell
//!  engine ----------------------> arena: tables, rings <- engine
//!      `---- payload: process_vm_readv, process_vm_writev --'
//!            or, where the system forbids that, through the arena
//! ```
//!
//! From the outside in:
//!
//! | module | what it is |
//! | --- | --- |
//! | [`command`] | `soft-hca run`, `ls`, `doctor` |
//! | [`sysfs`] | the files in which a program finds devices |
//! | [`client`] | a program's side: descriptors, commands, events |
//! | [`daemon`] | the fabric's side: objects, connection manager, timers, clean-up |
//! | [`link`] | other hosts: RoCE v2 over UDP |
//! | [`rpc`], [`config`] | messages between the two sides; where a fabric lives |
//! | [`device`] | what a device says of itself: ports, limits, GIDs, provider |
//! | [`uapi`] | the kernel's interfaces as bytes |
//! | [`engine`] | the data path: work requests, completions, memory |
//! | [`recording`] | what each process notes down while it is recorded |
//! | [`fault`] | faults on purpose: what is to go wrong, and how often |
//! | [`ring`], [`arena`] | queues and tables in shared memory |
//! | [`system`], [`errno`] | system calls, error numbers |
//! | [`sync`] | atomics, which `soft-hca/loom` replaces |
//!
//! A module uses those below it, and never the other way round, with one exception: the daemon
//! runs the engine for retries.
#![deny(unsafe_code)]
#![warn(unreachable_pub)]
#![allow(rustdoc::private_intra_doc_links, reason = "the map is of all modules")]

pub mod arena;
pub mod client;
pub mod command;
pub mod config;
mod daemon;
mod device;
mod engine;
pub mod errno;
pub mod fault;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod link;
mod recording;
mod ring;
mod rpc;
mod sync;
mod sysfs;
pub mod system;
pub mod uapi;
