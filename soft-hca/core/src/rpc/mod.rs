//! Messages between programs and the daemon, and the connections that carry them.
//!
//! Each opened device file is one connection (`SOCK_SEQPACKET`), so that the file ends when the
//! last process that holds it ends. A request is one message and so is its reply; file
//! descriptors travel beside it.

mod field;
mod message;
mod silence;
pub mod socket;

pub use message::{Answer, ChannelId, Created, FULL, FileKind, Hello, LateEvents, Reply, Request};
pub use silence::Silence;
pub use socket::{Connection, Listener, MAX_FDS, PATIENCE};
