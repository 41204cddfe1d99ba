//! Lesson 10's programs.

use crate::Program;

mod another;
mod peer;
mod solution;
mod start;
mod wrong_address;
mod wrong_sent;
mod wrong_told_first;
mod wrong_untold;

/// By their files' names.
pub const PROGRAMS: &[Program] = &[
    ("another", another::main),
    ("peer", peer::main),
    ("solution", solution::main),
    ("start", start::main),
    ("wrong_address", wrong_address::main),
    ("wrong_sent", wrong_sent::main),
    ("wrong_told_first", wrong_told_first::main),
    ("wrong_untold", wrong_untold::main),
];
