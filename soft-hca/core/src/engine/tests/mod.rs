//! The engine as a whole, in one process: what the provider does is done by the fixture.

#[cfg(test)]
mod at_once;
#[cfg(test)]
mod atomics;
#[cfg(test)]
mod bounces;
#[cfg(test)]
mod causes;
#[cfg(test)]
mod connected;
#[cfg(test)]
mod counters;
#[cfg(test)]
mod credits;
#[cfg(test)]
mod cursors;
#[cfg(test)]
mod datagrams;
#[cfg(test)]
mod delayed_writes;
#[cfg(test)]
mod eager;
#[cfg(test)]
mod errors;
#[cfg_attr(fuzzing, allow(dead_code, reason = "the tests use what the targets do not"))]
pub(crate) mod fabric;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod incoming;
#[cfg(test)]
mod other_process;
#[cfg(test)]
mod partitions;
#[cfg(test)]
mod placement;
#[cfg(test)]
mod queues;
#[cfg(test)]
mod random;
#[cfg(test)]
mod remote;
#[cfg(test)]
mod routes;
#[cfg(test)]
mod states;
#[cfg(test)]
mod strict;
#[cfg(test)]
mod threads;
#[cfg(test)]
mod traced;
#[cfg(test)]
mod waiting;
#[cfg(test)]
mod windows;
