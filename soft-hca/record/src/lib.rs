//! Records of RDMA runs: what programs have asked for, what became of it, and why.
//!
//! A record is a file of JSON Lines: a [`Header`], then an [`Entry`] on each line, in the order of
//! time. Numbers and names are those that a program sees. `soft-hca record` writes such files;
//! nothing here needs a fabric, a device or the daemon.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`entry`] | what a line can say |
//! | [`place`] | where in a program's source an entry comes from |
//! | [`calls`] | calls as the program made them |
//! | [`value`] | arguments and results of calls, and numbers that name something |
//! | [`arguments`] | those of a call by their names |
//! | [`cause`] | why a work request waits or has failed, in English |
//! | [`mod@file`] | reading and writing |
//! | `description`, `severity`, `words` | what an entry says, once for all views; how bad it is; its values in words |
//! | [`text`] | a line for each entry |
//! | [`stable`] | text that is the same in every run |
//! | [`model`] | the state of a run, which entries are folded into |
//! | [`hang`] | why a thread is blocked |
//! | [`explain`] | what went wrong, and what usually causes it |
//! | [`check`] | what a program got away with |
//! | [`sequence`] | the beginning of a run in the terminal, with lifelines and arrows |
//! | [`timeline`] | a page of HTML with a picture of the run |
//! | [`requests`] | which entries belong together |
//! | [`perfetto`] | a record as a trace of Perfetto |
#![forbid(unsafe_code)]

pub mod arguments;
pub mod calls;
pub mod cause;
pub mod check;
mod connection;
mod correlation;
mod description;
pub mod entry;
pub mod explain;
pub mod file;
pub mod hang;
pub mod model;
pub mod perfetto;
pub mod place;
pub mod requests;
pub mod sequence;
mod severity;
pub mod stable;
#[cfg(test)]
mod testing;
pub mod text;
mod time;
pub mod timeline;
mod usual;
pub mod value;
mod words;

pub use entry::{Entry, Header, What};
pub use file::{Reader, Writer};
pub use place::{Place, Site};
pub use value::{Name, Named, Value};
