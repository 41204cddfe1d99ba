//! The fabric's daemon: the part of the kernel that lives longer than any one program.
//!
//! One loop in one thread ([`run`]). It owns the objects, the connection manager and all timers, and
//! it ends with its last client. A second thread moves memory for programs that may not do that
//! themselves, and sleeps where they may; a third one serves the link to other hosts. What a program
//! leaves behind when it dies is found by its sockets, which the system closes.
//!
//! | module | what |
//! | --- | --- |
//! | `server` | the loop |
//! | `listing`, `why` | what `soft-hca ls` shows |
//! | `snapshot` | the fabric as the model of a run |
//! | `threads`, `idle` | the threads of processes, from `/proc`; whether all wait |
//! | `counter_files`, `lease` | counters in sysfs, which are written when they are read |
//! | [`sysfs`] | the files in which a program finds devices |
//! | `files` | the files that clients have opened, each a connection |
//! | `deferred` | commands that wait for a lock that a program has |
//! | `reap` | what the dead leave behind |
//! | `ucma` | the connection manager |
//! | `uverbs` | the commands of an opened device |
//! | `paths` | where address vectors lead, and path migration |
//! | `fabric` | all objects: who has which entry of the arena |
//! | `objects` | what the daemon knows of each by itself |
//! | `migration` | automatic path migration as a state machine |
//! | `counters` | the counters of ports |
//! | [`link`] | other hosts: RoCE v2 over UDP |
//! | `env` | what the data path asks of the daemon that runs it |
//! | `clock` | the time by which requests of strict programs are put off |
//! | `process` | programs |
//! | `table`, `free` | entries that are taken; numbers that are free |
//! | `event_fd`, `poller`, `reserve` | events, descriptors |
//! | [`device`] | what a device says of itself |
//! | `log` | what is refused and goes wrong |
//!
//! A module uses those below it, but for `env` and [`link`], which know each other.
#![deny(unsafe_code)]
#![warn(unreachable_pub)]
#![allow(rustdoc::private_intra_doc_links, reason = "the map is of all modules")]

mod clock;
mod counter_files;
mod counters;
mod deferred;
pub mod device;
mod env;
mod event_fd;
mod fabric;
mod files;
mod free;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod idle;
mod lease;
pub mod link;
mod listing;
pub mod log;
mod migration;
mod objects;
mod paths;
mod poller;
mod process;
mod reap;
mod reserve;
mod server;
mod snapshot;
pub mod sysfs;
mod table;
mod threads;
mod ucma;
mod uverbs;
mod why;

pub use server::{Config, Error, run};
