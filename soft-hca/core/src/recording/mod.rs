//! What a process notes down while its fabric is recorded.
//!
//! Every process appends to a file of its own in the fabric's folder, so that nobody waits for
//! anybody: programs by the preloaded library, the daemon for itself and the link to other hosts.
//! `soft-hca record` reads the files while they grow and makes a record of them, which is where
//! numbers get their names; what is noted here is short and costs little.
//!
//! | file | what |
//! | --- | --- |
//! | `note` | what is noted, as bytes |
//! | `spool` | a file of notes |
//! | `recorder` | a process's way to its file |
//! | `observe` | events of the data path as notes |

pub mod note;
mod observe;
mod recorder;
pub mod spool;

pub use recorder::{FOLDER, Recorder};
pub use spool::{About, Note, Spool};

/// Bytes that each process may note down before they are read, if nothing else is said.
pub const DEFAULT_LIMIT: u64 = 64 << 20;
/// The least that makes sense: files grow by so much.
pub const MIN_LIMIT: u64 = 256 << 10;
/// The most.
pub const MAX_LIMIT: u64 = 1 << 31;
