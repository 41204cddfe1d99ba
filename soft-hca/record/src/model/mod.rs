//! The state of a run: entries folded once, one after the other, into what a run consists of.
//!
//! | module | what it is |
//! | --- | --- |
//! | `process`, `threads` | processes; what each of their threads is blocked in |
//! | `queue_pair`, `shared_receive_queue` | queue pairs, shared receive queues |
//! | `send_queue`, `stalled` | send work requests from their post to the poll of their completion; why one waits |
//! | `receives` | receives, of a queue pair or of a shared receive queue |
//! | `messages` | which execution and which completion are of one message |
//! | `completion_queue` | completion queues, their arming, and what was not polled |
//! | `memory`, `writes` | memory that posted receives may write to; writes of adapters |
//! | `regions` | memory regions and windows by their keys |
//! | `ids` | ids of the connection manager |
//! | `state` | all of these: the [`Run`] |
//! | `fold`, `calls`, `work_requests` | how entries change it |
//! | `effect` | changes by an entry |
//!
//! Rules and views ask the [`Run`]; none of them folds entries into a state of these by itself.

mod calls;
mod completion_queue;
mod effect;
mod fold;
mod ids;
mod memory;
mod messages;
mod process;
mod queue_pair;
mod receives;
mod regions;
mod send_queue;
mod shared_receive_queue;
mod stalled;
mod state;
mod threads;
mod work_requests;
mod writes;

pub use completion_queue::{Armed, CompletionQueue, Unpolled};
pub use effect::{Effect, Stop, Stopped, Unfinished};
pub use ids::{Id, Ids, Key, Unread};
pub use memory::range;
pub use process::Process;
pub use queue_pair::{Capacity, End, QueuePair};
pub use receives::Receives;
pub use regions::{Region, Regions};
pub use send_queue::{Range, Send, SendQueue};
pub use shared_receive_queue::SharedReceiveQueue;
pub use stalled::{STALL_NS, Stalled};
pub use state::Run;
pub use threads::{Blocked, Doing, Thread, Threads};
pub use writes::{Writes, overlap};
