//! The port to other hosts: packets of RoCE v2 on UDP sockets, and connected queue pairs that send and
//! receive them. Whoever has the sockets can run it.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`queue_pair`] | a connected queue pair: its transport, the engine and the port together |
//! | `snapshot` | its state in the arena, for the next one who goes on with it |
//! | [`run`] | a process that runs its lease of the port |
//! | [`packets`] | packets out and in, checked |
//! | [`outbox`] | packets that go out together |
//! | [`path`] | where a packet goes, and what its IP header says |
//! | [`socket`], `group` | datagrams; sockets that share a port |

mod group;
pub mod outbox;
pub mod packets;
pub mod path;
pub mod queue_pair;
pub mod run;
mod snapshot;
pub mod socket;

pub use packets::{Arrived, LinkPort, NoTap, Tap};
pub use path::Path;
pub use queue_pair::LinkQueuePair;
pub use run::Running;
pub use snapshot::{SLOT_BYTES, SLOTS, Scratch};
