//! Lesson 6's programs.

use crate::Program;

mod another;
mod peer;
mod solution;
mod start;
mod wrong_answer;
mod wrong_board;
mod wrong_one_region;
mod wrong_slot;

/// By their files' names.
pub const PROGRAMS: &[Program] = &[
    ("another", another::main),
    ("peer", peer::main),
    ("solution", solution::main),
    ("start", start::main),
    ("wrong_answer", wrong_answer::main),
    ("wrong_board", wrong_board::main),
    ("wrong_one_region", wrong_one_region::main),
    ("wrong_slot", wrong_slot::main),
];
