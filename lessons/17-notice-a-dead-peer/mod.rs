//! Lesson 17's programs.

use crate::Program;

mod another;
mod another_asks;
mod peer;
mod solution;
mod start;

/// By their files' names.
pub const PROGRAMS: &[Program] = &[
    ("another", another::main),
    ("another_asks", another_asks::main),
    ("peer", peer::main),
    ("solution", solution::main),
    ("start", start::main),
];
