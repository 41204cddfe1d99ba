//! Lesson 24's programs.

use crate::Program;

mod another;
mod peer;
mod solution;
mod start;

/// By their files' names.
pub const PROGRAMS: &[Program] = &[
    ("another", another::main),
    ("peer", peer::main),
    ("solution", solution::main),
    ("start", start::main),
];
