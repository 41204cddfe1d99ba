//! The part that the processes of a fabric share: programs (by the preloaded library), the daemon, and the
//! command that starts and shows them.
//!
//! From the outside in:
//!
//! | module | what it is |
//! | --- | --- |
//! | [`rpc`] | messages between programs and the daemon |
//! | [`port`] | packets to and from other hosts |
//! | [`engine`] | the data path: work requests, completions, memory |
//! | [`trace`] | what each process traces while it is recorded |
//! | [`notes`] | what each process notes for `soft-hca doctor -- CMD` |
//! | [`config`] | names, folders and environment variables: where a fabric lives |
//! | [`device_spec`] | which devices a fabric has, as a command line says it |
//! | [`sysfs`], [`device_file`] | the files in which a program finds devices, and those that lead to them |
//! | [`uapi`] | the kernel's interfaces as bytes |
//! | [`errno`] | error numbers, each with its reason |
//! | [`arena`], [`ring`] | tables and queues in shared memory |
//! | [`provider`] | where the system has rdma-core's half of the driver |
//! | [`system`] | system calls |
//! | [`memcheck`] | requests to Valgrind |
//! | [`deadlines`] | what is to be done later |
//! | [`put_off`] | for how long `--strict` puts something off |
//! | `sync` | atomics, which `soft-hca/loom` replaces |
//!
//! A module uses those below it; `soft-hca/docs/inside.md` has the way of a message through them.
#![deny(unsafe_code)]
#![warn(unreachable_pub)]
#![allow(rustdoc::private_intra_doc_links, reason = "the map is of all modules")]

pub mod arena;
pub mod config;
pub mod deadlines;
pub mod device_file;
pub mod device_spec;
pub mod engine;
pub mod errno;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod memcheck;
pub mod notes;
pub mod port;
pub mod provider;
pub mod put_off;
pub mod ring;
pub mod rpc;
mod sync;
pub mod sysfs;
pub mod system;
pub mod trace;
pub mod uapi;
