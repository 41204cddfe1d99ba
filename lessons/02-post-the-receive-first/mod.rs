//! Lesson 2's programs.

use crate::Program;

mod another;
mod peer;
mod solution;
mod start;
mod wrong_access;
mod wrong_never;
mod wrong_room;

/// By their files' names.
pub const PROGRAMS: &[Program] = &[
    ("another", another::main),
    ("peer", peer::main),
    ("solution", solution::main),
    ("start", start::main),
    ("wrong_access", wrong_access::main),
    ("wrong_never", wrong_never::main),
    ("wrong_room", wrong_room::main),
];
