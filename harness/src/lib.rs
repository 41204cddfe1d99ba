//! Runs the example programs as pairs, records both sides, and compares them
//! with the C originals.
//!
//! - [`process`], [`transcript`]: one program and what it prints
//! - [`listen`]: when a server listens
//! - [`peer`]: clients that are no RDMA program
//! - [`run`](mod@run): a pair from its start to its end
//! - [`private`]: a network of its own
//! - [`soft_hca`]: a fabric in user space instead of a device
//! - [`examples`]: the examples
//! - [`map`]: the table of the examples that pages have
//! - [`golden`]: comparison with the recorded transcripts
//! - [`demo`]: the tour of the examples
//! - [`faults`]: every verb that the examples call, made to fail
//! - [`seeds`]: the examples with one seed of soft-hca's `--strict` after the other
//! - [`problem`]: the course's three problems, each beside its solution
//! - [`compare`]: the C originals and the Rust programs side by side
//! - [`hosts`]: the sides of a pair on other hosts
//! - [`agent`]: runs one program for somebody else, and says what it cost
//! - [`reach`]: whether datagrams pass from one host to another
//! - [`pair`]: any two commands as a pair
//! - [`show`]: labelled output
//! - [`site`]: the repository's pages as a book
//! - [`references`]: what there is to read about the examples' functions
//! - [`lines`]: comparing lists of lines

pub mod agent;
mod columns;
pub mod compare;
pub mod demo;
pub mod error;
pub mod examples;
pub mod faults;
pub mod golden;
pub mod hosts;
pub mod lines;
pub mod listen;
pub mod map;
pub mod migration;
pub mod pair;
pub mod peer;
pub mod private;
pub mod problem;
pub mod process;
mod quote;
mod rdma_netlink;
pub mod reach;
mod recording;
pub mod references;
pub mod run;
pub mod seeds;
pub mod show;
pub mod site;
pub mod soft_hca;
mod suspend;
pub mod transcript;

pub use error::Error;
