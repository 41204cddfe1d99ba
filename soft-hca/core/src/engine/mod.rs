//! The data path: work requests are executed here, payload moves, completions appear.
//!
//! There is no thread of its own, those apart that copy where the system forbids a peer to.
//! The thread that rings a queue pair's doorbell executes its send queue: it consumes the peer's receive work
//! request, copies from the one process to the other or leaves that to the receiver's poll, writes
//! both completions and wakes whoever waits for them. The daemon does the same with queues that could not go on.
//!
//! A file uses those below it, and none above: neither its functions nor its methods. Where something is
//! to be done above, a function returns what has happened (the outcome of `waiting`, a `request_error`), or
//! notes it for the time when no lock is held (`deferred`).
//!
//! # Entries
//! Of programs, the daemon and the link.
//!
//! | file | is about | in the kernel |
//! | --- | --- | --- |
//! | `doorbell` | where programs and the daemon enter | |
//! | `at_once` | small sends, which pass by the send queue | |
//! | `recovery`, `quiesce` | the daemon: after the end of a process, and of a memory region | |
//! | `remote` | queue pairs with a peer on another host | `rxe_req.c`, `rxe_resp.c` |
//!
//! # The send queue
//! A requester runs it in steps: it takes the locks, asks `schedule` how many work requests are executed, and
//! executes them.
//!
//! | file | is about | in the kernel |
//! | --- | --- | --- |
//! | `requester` | the send queue, one request or batch after the other | `rxe_req.c`, `rxe_comp.c` |
//! | `effects` | what is done once all locks are free | |
//! | `waiting` | requests that cannot be executed now | `rxe_comp.c` |
//! | `schedule` | when requests are executed: the one way to the next two | |
//! | `delayed_writes` | RDMA writes that are delayed to see which programs wait for them | |
//! | `strict` | programs that are served as late as is legal | |
//! | `execute` | each request by its kind | `rxe_req.c` |
//! | `batch` | sends, RDMA writes and reads: moving what goes together | `rxe_req.c` |
//! | `datagram` | sending datagrams | `rxe_net.c` |
//! | `request_locks` | locks that the daemon takes before it executes a request | |
//! | `atomic`, `placement`, `bind` | the other kinds of requests | `rxe_resp.c`, `rxe_mw.c` |
//! | `strict_bytes` | bytes of strict programs that come early, late, or in pieces | |
//! | `plan` | a batch: checking each message, listing its memory | `rxe_req.c`, `rxe_resp.c` |
//! | `turn` | a step's share of a send queue | |
//! | `request` | one request: its memory, its end, its completion | `rxe_req.c`, `rxe_comp.c` |
//!
//! # The receive queue
//! The peer's side of a request: a responder checks rights, consumes receive work requests, and
//! completes or flushes them.
//!
//! | file | is about | in the kernel |
//! | --- | --- | --- |
//! | `delivery` | datagrams that have come to a queue pair, or a group | `rxe_recv.c` |
//! | `incoming` | a message that goes into a receive work request, in parts | `rxe_resp.c` |
//! | `responder` | the peer's side of a request: the receive queue | `rxe_resp.c` |
//! | `receive` | the memory of a receive work request | `rxe_resp.c` |
//! | `flush` | the error state | `rxe_comp.c`, `rxe_resp.c` |
//!
//! # Completion
//! Adding completions with their events, the credits for them, and payloads that a poll brings to memory.
//!
//! | file | is about | in the kernel |
//! | --- | --- | --- |
//! | `completion` | completion queues | `rxe_cq.c` |
//! | `notification`, `arming` | their events | `rxe_cq.c` |
//! | `credit`, `reservation` | free entries of completion queues, and waiting for them | |
//! | `request_error` | why a request is not executed | |
//! | `eager`, `staging` | small sends, which the receiver's own poll brings to their receives | `rxe_resp.c` |
//! | `listed` | the queues for which something is staged | |
//!
//! # The context
//! An `Actor`, the process that runs the data path, and what all of the above needs beside memory.
//!
//! | file | is about | in the kernel |
//! | --- | --- | --- |
//! | `posted`, `traced` | what is traced | |
//! | `address`, `window` | address handles, memory windows | `rxe_av.c`, `rxe_mw.c` |
//! | `deferred` | what is collected for the time when all locks are free | |
//! | `locking` | who waits for a lock | |
//! | `actor` | the process that runs this, and what all of the above needs of it | |
//! | `env` | what it gives | |
//!
//! # Memory
//! Keys lead to stretches of memory, a copier moves bytes between them.
//!
//! | file | is about | in the kernel |
//! | --- | --- | --- |
//! | `memory` | keys and bounds | `rxe_mr.c` |
//! | `helper` | a thread that moves memory for others | |
//! | `copier` | how bytes are moved | |
//! | `bounce`, `bounce_buffer`, `bounce_phase` | through the arena | |
//! | `pids`, `process_memory` | from process to process | |
//! | `own_memory` | within this process | |
//! | `registry` | regions and processes, as the process that copies has learned of them | `rxe_mr.c` |
//! | `in_transit` | bytes on their way between strict programs | |
//! | `segments` | stretches of memory and their regions | |
//!
//! # Below all
//! Values and words, without an actor.
//!
//! | file | is about | in the kernel |
//! | --- | --- | --- |
//! | `route`, `traffic` | the way to the peer, and what counters of ports are made of | `rxe_net.c`, `rxe_hw_counters.c` |
//! | `check`, `wc_status`, `timing` | failed checks, statuses and timers, with our choices | `rxe_comp.c` |
//! | `asynchronous` | asynchronous events | |
//! | `strict_choice` | what a seed of `--strict` chooses | |
//! | `moments` | what is put off happens, and threads that wait for that | |
//! | `cursor`, `proc`, `futex`, `signals` | what all of them need | |
//!
//! # Locks
//! In this order, never two of a kind: the requester's `send_lock`; the responder's `recv_lock`;
//! a shared receive queue's lock, only while a receive work request is consumed; a process's lock
//! for atomics; a completion queue's lock; its `eager_lock`. The `send_lock` is held while local
//! memory is used and the `recv_lock` while the responder's memory is used, so that a process that has held
//! both for a moment knows that no request of before is still being executed (`quiesce`).
//! Everything that may wait for the daemon happens when no lock is held (`deferred`).
//!
//! Programs wait for locks. The daemon never does, for whoever has one may be stopped: it takes all
//! that a step needs at once, in any order, or none and comes back later (`request_locks`).

mod actor;
mod address;
mod arming;
mod asynchronous;
mod at_once;
mod atomic;
mod batch;
mod bind;
mod bounce;
mod bounce_buffer;
mod bounce_phase;
mod check;
mod completion;
mod copier;
mod credit;
mod cursor;
mod datagram;
mod deferred;
mod delayed_writes;
mod delivery;
mod doorbell;
mod eager;
mod effects;
mod env;
mod execute;
mod flush;
mod futex;
mod helper;
mod in_transit;
mod incoming;
mod listed;
mod locking;
mod memory;
mod moments;
mod notification;
mod own_memory;
mod pids;
mod placement;
mod plan;
mod posted;
mod proc;
mod process_memory;
mod quiesce;
mod receive;
mod recovery;
mod registry;
pub mod remote;
mod request;
mod request_error;
mod request_locks;
mod requester;
mod reservation;
mod responder;

mod route;
mod schedule;
mod segments;
mod signals;
mod staging;
mod strict;
mod strict_bytes;
mod strict_choice;
#[cfg(any(test, fuzzing))]
#[allow(clippy::unwrap_used, reason = "tests, of which fuzz targets use a part")]
pub(crate) mod tests;
mod timing;
mod traced;
mod traffic;
mod turn;
mod waiting;
mod wc_status;
mod window;

pub use actor::Actor;
pub use asynchronous::{Async, Subject};
pub use at_once::{MAX_PLAIN_SGES, PlainSend, SendWr};
pub use copier::{Copier, LocalCopier};
pub use credit::{cqe_of, ring_entries};
pub use eager::{EAGER_SLOT_BYTES, EAGER_SLOTS};
pub use env::{Env, RemoteDatagram};
pub use helper::Helper;
pub use in_transit::InTransit;
pub use listed::CqSet;
pub use moments::Moment;
pub use notification::Reading;
pub use own_memory::{guard, is_guarded_signal, set_action};
pub use posted::ReceiveQueue;
pub use proc::{DAEMON, LINK};
pub use quiesce::Quiesce;
pub use recovery::Tokens;
pub use registry::{Identity, Registered, Registry, Retired};
pub use remote::DatagramReceiver;
pub use route::Route;
pub use traced::trace_packet;
