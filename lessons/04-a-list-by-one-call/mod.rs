//! Lesson 4's programs.

use crate::Program;

mod another;
mod peer;
mod solution;
mod start;
mod wrong_short;
mod wrong_two_calls;
mod wrong_unsignaled;

/// By their files' names.
pub const PROGRAMS: &[Program] = &[
    ("another", another::main),
    ("peer", peer::main),
    ("solution", solution::main),
    ("start", start::main),
    ("wrong_short", wrong_short::main),
    ("wrong_two_calls", wrong_two_calls::main),
    ("wrong_unsignaled", wrong_unsignaled::main),
];
