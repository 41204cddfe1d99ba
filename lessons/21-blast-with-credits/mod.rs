//! Lesson 21's programs.

use crate::Program;

mod another;
mod another_list;
mod peer;
mod solution;
mod start;

/// By their files' names.
pub const PROGRAMS: &[Program] = &[
    ("another", another::main),
    ("another_list", another_list::main),
    ("peer", peer::main),
    ("solution", solution::main),
    ("start", start::main),
];
