//! Lines on the standard streams, written as soon as they are complete.
//!
//! `eprintln!` writes each piece of a line on its own and panics when the stream is closed;
//! `println!` may hold a line back. A lesson's line has to be out when its step is done, whole
//! even when two threads print, and a closed stream must not end the program.

use std::fmt;
use std::io::{self, Write};

/// One line on standard error, in one write: `fprintf(stderr, "...\n", ...)`.
#[macro_export]
macro_rules! errln {
    ($($arg:tt)*) => { $crate::print::write_err(&format!("{}\n", format_args!($($arg)*))) };
}

/// One line on standard output, in one write: `fprintf(stdout, "...\n", ...)`.
#[macro_export]
macro_rules! outln {
    ($($arg:tt)*) => { $crate::print::write_out(&format!("{}\n", format_args!($($arg)*))) };
}

/// Writes `text` to standard error. As with `fprintf(3)`, a failure to write is not reported.
pub fn write_err(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Writes `text` to standard output; see [`write_err`].
pub fn write_out(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

/// A pointer shown as `%p` shows it in glibc: `0x...`, or `(nil)`.
#[derive(Clone, Copy, Debug)]
pub struct Pointer<T>(pub *const T);

impl<T> fmt::Display for Pointer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_null() { f.write_str("(nil)") } else { write!(f, "{:p}", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_look_like_c() {
        assert_eq!(Pointer(std::ptr::null::<u8>()).to_string(), "(nil)");
        assert_eq!(Pointer(0xabc as *const u8).to_string(), "0xabc");
    }
}
