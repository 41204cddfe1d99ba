//! Lesson 3's programs.

use crate::Program;

mod another;
mod peer;
mod solution;
mod start;
mod wrong_copied;
mod wrong_header_only;
mod wrong_key;

/// By their files' names.
pub const PROGRAMS: &[Program] = &[
    ("another", another::main),
    ("peer", peer::main),
    ("solution", solution::main),
    ("start", start::main),
    ("wrong_copied", wrong_copied::main),
    ("wrong_header_only", wrong_header_only::main),
    ("wrong_key", wrong_key::main),
];
