//! Lesson 22's programs.

use crate::Program;

mod another;
mod another_pair;
mod peer;
mod solution;
mod start;

/// By their files' names.
pub const PROGRAMS: &[Program] = &[
    ("another", another::main),
    ("another_pair", another_pair::main),
    ("peer", peer::main),
    ("solution", solution::main),
    ("start", start::main),
];
