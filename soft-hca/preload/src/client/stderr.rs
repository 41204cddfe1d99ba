//! Lines to standard error.

use std::io::{self, Write};

/// A line to standard error. The program may have closed that.
pub(super) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "soft-hca: {text}");
}
