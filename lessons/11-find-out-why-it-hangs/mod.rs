//! Lesson 11's programs.

use crate::Program;

mod another;
mod peer;
mod solution;
mod start;
mod wrong_late;
mod wrong_unarmed;
mod wrong_unasked;

/// By their files' names.
pub const PROGRAMS: &[Program] = &[
    ("another", another::main),
    ("peer", peer::main),
    ("solution", solution::main),
    ("start", start::main),
    ("wrong_late", wrong_late::main),
    ("wrong_unarmed", wrong_unarmed::main),
    ("wrong_unasked", wrong_unasked::main),
];
