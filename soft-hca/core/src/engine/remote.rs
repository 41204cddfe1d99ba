//! A queue pair whose peer is on another host, as the link sees it: what it is to send, where its
//! memory is, its completions. Each call takes the locks that it needs and waits for none.

mod datagram;
mod sends;
mod target;

use arrayvec::ArrayVec;

use crate::engine::process_memory;
use crate::engine::segments::{MAX_SEGMENTS, Segment};

pub use datagram::DatagramReceiver;
pub use sends::{RemoteSends, Sending};
pub use target::{Arriving, RemoteTarget};

/// Stretches of this process's memory.
type Ours = ArrayVec<Segment, MAX_SEGMENTS>;

fn read_only(parts: &[&[u8]]) -> Ours {
    parts.iter().take(MAX_SEGMENTS).map(|part| process_memory::ours(part)).collect()
}

fn writable(parts: &mut [&mut [u8]]) -> Ours {
    parts.iter_mut().take(MAX_SEGMENTS).map(|part| process_memory::ours_mut(part)).collect()
}
