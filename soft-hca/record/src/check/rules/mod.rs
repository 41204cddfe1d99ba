//! The rules, each a file or a folder: what it looks for, and its advice. `soft-hca/mistakes` has a wrong program for each,
//! `soft-hca/docs/check.md` a line.

pub(super) mod after_error;
pub(super) mod arm_order;
pub(super) mod buffer_early;
pub(super) mod cq_full;
pub(super) mod fork;
pub(super) mod inline_size;
pub(super) mod leaked;
pub(super) mod overlap;
pub(super) mod path_mtu;
pub(super) mod pkey_index;
pub(super) mod polled_memory;
pub(super) mod polled_twice;
pub(super) mod queue_full;
pub(super) mod race;
pub(super) mod read_depth;
pub(super) mod receive_gone;
pub(super) mod receive_late;
pub(super) mod refused;
pub(super) mod rkey_stale;
pub(super) mod sge_count;
pub(super) mod srq_limit;
pub(super) mod state;
pub(super) mod timers;
pub(super) mod unacked;
pub(super) mod unsignaled_run;
