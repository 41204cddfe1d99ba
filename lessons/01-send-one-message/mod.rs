//! Lesson 1's programs.

use crate::Program;

mod another;
mod peer;
mod solution;
mod start;
mod wrong_length;
mod wrong_lkey;
mod wrong_twice;
mod wrong_unpolled;
mod wrong_unsignaled;

/// By their files' names.
pub const PROGRAMS: &[Program] = &[
    ("another", another::main),
    ("peer", peer::main),
    ("solution", solution::main),
    ("start", start::main),
    ("wrong_length", wrong_length::main),
    ("wrong_lkey", wrong_lkey::main),
    ("wrong_twice", wrong_twice::main),
    ("wrong_unpolled", wrong_unpolled::main),
    ("wrong_unsignaled", wrong_unsignaled::main),
];
