//! The fabric's shared memory: every process of a fabric maps the same arena.
//!
//! # Access to shared memory
//!
//! Any process of a fabric can write any byte of the arena at any time, and a program any byte that it has registered.
//! Such bytes are reached in three ways and in no other, for the compiler takes a plain load or store as one that nobody
//! disturbs, and a reference as one to memory that nobody else writes:
//!
//! 1. **Atomics.** The tables consist of them ([`Arena`]), and headers and slots of rings are read and written word by
//!    word ([`ring`](crate::ring)). Only to these there are references.
//! 2. **A few instructions in assembly**, for payloads between the arena and the memory of the process that copies
//!    (`engine::own_memory`).
//! 3. **System calls** that are given addresses, or a place in the arena's file: `process_vm_readv(2)` and
//!    `process_vm_writev(2)` (`engine::process_memory`), `preadv(2)` and `pwritev(2)` (`engine::bounce_buffer`), `futex(2)`.
//!
//! | side | has access by | assumes | is sound because |
//! | --- | --- | --- | --- |
//! | the engine, in a program or the daemon | 1 for tables and rings, 2 and 3 for payloads | that a word is some number, and may be another one at the next look: an index or a length is checked in the copy that is used. Of an honest peer that what it wrote before it released an index or a lock is there for whoever acquires that | no value of an atomic is wrong for the compiler, whoever writes it; and the compiler knows nothing of the bytes that instructions in assembly and the kernel move, nor of their order, so that a copy from bytes that change gives some bytes |
//! | rdma-core's rxe provider | C11 atomics for a ring's two indices, plain loads and stores for slots | that the sizes in the header are the ring's, and that slots are its own: those behind the producer's index of a queue that it posts to, and those from the consumer's index to the producer's of one that it polls | the engine writes no slot of a queue that the provider posts to, and none of a completion queue between its indices; indices are released by the one side and acquired by the other, so of an honest fabric no plain access meets another one |
//! | the program | plain loads and stores of what it has registered; it does not know of the arena | what verbs promise: the memory of a receive or a read is the device's until its completion is polled | the engine, and another process by it, moves the bytes by 2 or 3, before it releases the completion that the provider acquires. A program that looks for bytes of an RDMA write without a completion needs atomics of its own, as with a device |
//! | another process | as the engine here; of this process's memory by 3 | the same; it may be killed between any two instructions | locks have their owner's number, and the daemon gives them back ([`Lock`]); an index is written behind what it stands for |
//! | a hostile process | any | nothing | all that holds for the engine whatever the values are: masks, bounds and sizes come from our own tables and code. The provider and the program believe what they read, see `soft-hca/docs/security.md` |
//! | what records | the files of `trace`, of one process each: 1 for headers, for a record's first word and for all that is read; plain stores into a record that the storing thread has claimed | that a record with its mark is whole | a claim moves the end of all records on by an atomic exchange, so that a place is one thread's; nobody reads it before the mark is released. A reader checks its own copy |
//!
//! Types that turn addresses into references, or copy by themselves, say how they keep to this: [`Mapping`],
//! [`Ring`](crate::ring::Ring), `trace::TraceRing`.

mod clocks;
mod doorbell;
mod entry;
mod heap;
mod layout;
mod lock;
mod map;
mod operations;
mod places;
pub mod port_counters;
pub mod port_lease;
mod qp;
mod recording;
mod ring_location;
mod scope;
mod summed;
mod traffic;

pub use clocks::{Clock, Clocked, Clocks, Subject};
pub use entry::{Entry, Word};
pub use heap::Heap;
pub use layout::*;
pub use lock::{Guard, Lock, LockApart};
pub use map::Mapping;
pub use operations::{OPERATIONS, Operation, OperationKind, Operations};
pub use places::{PLACES, Place, Places};
pub use port_lease::{PORT_LEASE_QPS, PORT_LEASES, PortLease, lease_of};
pub use qp::{MAX_QPS, Qp};
pub use ring_location::RingLocation;
pub use scope::Scope;
pub use traffic::{Events, Tally, Traffic};
