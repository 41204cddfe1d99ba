//! The fabric's shared memory: every process of a fabric maps the same arena.

mod doorbell;
mod entry;
mod heap;
mod layout;
mod lock;
mod map;
pub mod port_counters;
mod qp;
mod recording;
mod ring_place;
mod scope;
pub mod share;
mod traffic;

pub use entry::{Entry, Word};
pub use heap::Heap;
pub use layout::*;
pub use lock::{Guard, Lock, LockApart};
pub use map::Mapping;
pub use qp::{MAX_QPS, Qp};
pub use ring_place::RingPlace;
pub use scope::Scope;
pub use share::{SHARE_QPS, SHARES, Share, share_of};
pub use traffic::{Events, Tally, Traffic};
