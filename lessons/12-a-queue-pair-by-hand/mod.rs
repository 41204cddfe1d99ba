//! Lesson 12's programs.

use crate::Program;

mod another;
mod peer;
mod solution;
mod start;
mod wrong_early;
mod wrong_endless;
mod wrong_mask;
mod wrong_psn;

/// By their files' names.
pub const PROGRAMS: &[Program] = &[
    ("another", another::main),
    ("peer", peer::main),
    ("solution", solution::main),
    ("start", start::main),
    ("wrong_early", wrong_early::main),
    ("wrong_endless", wrong_endless::main),
    ("wrong_mask", wrong_mask::main),
    ("wrong_psn", wrong_psn::main),
];
