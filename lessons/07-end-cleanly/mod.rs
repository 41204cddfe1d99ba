//! Lesson 7's programs.

use crate::Program;

mod another;
mod peer;
mod solution;
mod start;
mod wrong_exit;
mod wrong_ignored;
mod wrong_leak;

/// By their files' names.
pub const PROGRAMS: &[Program] = &[
    ("another", another::main),
    ("peer", peer::main),
    ("solution", solution::main),
    ("start", start::main),
    ("wrong_exit", wrong_exit::main),
    ("wrong_ignored", wrong_ignored::main),
    ("wrong_leak", wrong_leak::main),
];
