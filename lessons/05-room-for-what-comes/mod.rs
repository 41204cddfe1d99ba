//! Lesson 5's programs.

use crate::Program;

mod another;
mod peer;
mod solution;
mod start;
mod wrong_byte;
mod wrong_element;
mod wrong_generous;

/// By their files' names.
pub const PROGRAMS: &[Program] = &[
    ("another", another::main),
    ("peer", peer::main),
    ("solution", solution::main),
    ("start", start::main),
    ("wrong_byte", wrong_byte::main),
    ("wrong_element", wrong_element::main),
    ("wrong_generous", wrong_generous::main),
];
