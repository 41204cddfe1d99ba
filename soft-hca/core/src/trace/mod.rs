//! Events that a process traces while its fabric is recorded.
//!
//! Every process appends to a ring of its own in the fabric's folder, so that nobody waits for
//! anybody: programs by the preloaded library, the daemon for itself and the link to other hosts.
//! `soft-hca record` reads the rings while they fill and makes a record of them, which is where
//! numbers get their names; what is traced is short and costs little.
//!
//! ```text
//!  engine, link:  work requests, completions, packets  --.
//!  preload:       calls, waits, connection events      --|--> Event --> TraceRing
//!  daemon:        processes that have ended            --'                  |
//!                                                                           v
//!  soft-hca show, explain, ... <-- file <-- Entry <-- decoder of `soft-hca record`
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `event` | what is traced, as bytes |
//! | `cause` | why what is traced waits or has failed |
//! | `ring` | a ring of such records |
//! | `file` | the file that it is in |
//! | `recorder` | a process's way to its ring |

pub mod cause;
pub mod event;
mod file;
mod recorder;
mod ring;

pub use event::Event;
pub use file::OtherVersion;
pub use recorder::{FOLDER, Recorder, at, site, thread};
pub use ring::{About, Record, Site, TraceRing};

/// Bytes that each process may trace before they are read, if nothing else is said.
pub const DEFAULT_LIMIT: u64 = 64 << 20;
/// The least that makes sense: files grow by so much.
pub const MIN_LIMIT: u64 = 256 << 10;
/// The most.
pub const MAX_LIMIT: u64 = 1 << 31;
