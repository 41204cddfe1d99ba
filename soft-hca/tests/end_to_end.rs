//! soft-hca from the outside: real programs, real libraries, one fabric and one folder a test.
//!
//! One program for all of them: most of the time to build several would go into linking.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod check;
mod checked;
mod closed;
mod command;
mod counters;
mod dapl;
mod devices;
mod disturbed;
mod doctor;
mod engines;
mod errors;
mod explain;
mod faults;
mod folders;
mod gloo;
mod hangs;
mod hook;
mod hosts;
mod hosts_cm;
mod hosts_death;
mod hosts_multicast;
mod hosts_others;
mod hosts_own_port;
mod installed;
mod kill;
mod kill_locked;
mod layouts;
mod leaks;
mod like;
mod limits;
mod llama;
mod log;
mod mooncake;
mod mpi;
mod others;
mod partitions;
mod perftest;
mod places;
mod providers;
mod qemu;
mod queues;
mod rdma_core;
mod record;
mod removal;
mod rsockets;
mod stock;
mod stopped;
mod strict;
mod sysfs;
mod traffic;
mod ucx;
