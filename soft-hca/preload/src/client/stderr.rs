//! Lines to standard error.

use std::io::{self, Write};

/// A line to standard error, by one write: threads of the program print at the same time. The program may have closed
/// it.
pub(super) fn say(text: &str) {
    let _ = io::stderr().write_all(format!("soft-hca: {text}\n").as_bytes());
}
