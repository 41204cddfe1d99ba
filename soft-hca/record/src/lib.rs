//! Records of RDMA runs: what programs have asked for, what became of it, and why.
//!
//! A record is a file of JSON Lines: a [`Header`], then an [`Entry`] on each line, in the order of
//! time. Numbers and names are those that a program sees. `soft-hca record` writes such files;
//! nothing here needs a fabric, a device or the daemon.
//!
//! From the views, by way of what is found and the model, down to entries and their values; a module uses those below it:
//!
//! | module | what it is |
//! | --- | --- |
//! | [`timeline`] | a page of HTML with a picture of the run |
//! | [`sequence`] | the beginning of a run in the terminal, with lifelines and arrows |
//! | [`perfetto`] | a record as a trace of Perfetto |
//! | [`stable`] | text that is the same in every run |
//! | `correlation` | what belongs together, for pictures: messages, calls and their events, phases, rounds |
//! | [`check`] | what a program got away with: the rules |
//! | [`explain`] | what went wrong, and what usually causes it |
//! | [`text`] | a line for each entry |
//! | [`hang`] | why a thread is blocked |
//! | [`requests`] | the entries of each work request |
//! | [`model`] | the state of a run, which entries are folded into |
//! | `words` | values in words, and an entry as pictures show it |
//! | `description` | what an entry says, once for all views |
//! | `severity` | how bad an entry is |
//! | `usual`, `connection` | usual causes; what the status of a connection event means |
//! | [`cause`] | why a work request waits or has failed, in English |
//! | [`calls`] | calls as the program made them |
//! | `file` | reading and writing |
//! | [`arguments`] | arguments and results of a call by their names |
//! | [`entry`] | what a line can say |
//! | [`place`] | where in a program's source an entry comes from |
//! | [`value`] | arguments and results of calls, and numbers that name something |
//! | `time` | durations and times in words |
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
pub mod time;
pub mod timeline;
mod usual;
pub mod value;
mod words;

pub use entry::{Entry, Header, What};
pub use file::{Reader, Writer};
pub use place::{Place, Site};
pub use value::{Name, Named, Value};
