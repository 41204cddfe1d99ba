//! Lesson 9's programs.

use crate::Program;

mod another;
mod peer;
mod solution;
mod start;
mod wrong_all_and_one_poll;
mod wrong_first;
mod wrong_none;

/// By their files' names.
pub const PROGRAMS: &[Program] = &[
    ("another", another::main),
    ("peer", peer::main),
    ("solution", solution::main),
    ("start", start::main),
    ("wrong_all_and_one_poll", wrong_all_and_one_poll::main),
    ("wrong_first", wrong_first::main),
    ("wrong_none", wrong_none::main),
];
