//! Lesson 8's programs.

use crate::Program;

mod another;
mod peer;
mod solution;
mod start;
mod wrong_once;
mod wrong_order;
mod wrong_unacknowledged;

/// By their files' names.
pub const PROGRAMS: &[Program] = &[
    ("another", another::main),
    ("peer", peer::main),
    ("solution", solution::main),
    ("start", start::main),
    ("wrong_once", wrong_once::main),
    ("wrong_order", wrong_order::main),
    ("wrong_unacknowledged", wrong_unacknowledged::main),
];
