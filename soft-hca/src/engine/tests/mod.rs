//! The engine as a whole, in one process: what the provider does is done by the fixture.

mod atomics;
mod connected;
mod datagrams;
mod errors;
pub(super) mod fabric;
mod hostile;
mod other_process;
mod queues;
mod random;
mod relays;
mod states;
mod threads;
mod waiting;
mod windows;
