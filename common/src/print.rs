//! Lines on the standard streams, written as soon as they are complete.
//!
//! `eprintln!` writes each piece of a line on its own and panics when the stream is closed;
//! `println!` may hold a line back. A lesson's line has to be out when its step is done, whole
//! even when two threads print, and a closed stream must not end the program. Only where a program
//! says something of every message, a system call for each line would take a good part of its
//! time: [`outln_later!`](crate::outln_later) collects such lines until the program waits.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

/// More than this is not collected, in bytes: as much as the C library does.
const ENOUGH: usize = 4096;

/// What is to be written to standard output before the next wait.
static LATER: Mutex<String> = Mutex::new(String::new());

/// One line on standard error, in one write: `fprintf(stderr, "...\n", ...)`.
#[macro_export]
macro_rules! errln {
    ($($arg:tt)*) => { $crate::print::write_err(&format!("{}\n", format_args!($($arg)*))) };
}

/// One line on standard output, flushed: `fprintf(stdout, "...\n", ...)`.
#[macro_export]
macro_rules! outln {
    ($($arg:tt)*) => { $crate::print::write_out(format_args!("{}\n", format_args!($($arg)*))) };
}

/// One line on standard output that may come together with the next ones: before the next
/// [`outln!`](crate::outln) or [`print::flush_out`](flush_out), and before the program ends.
#[macro_export]
macro_rules! outln_later {
    ($($arg:tt)*) => { $crate::print::write_out_later(format_args!("{}\n", format_args!($($arg)*))) };
}

/// Writes `text` to standard error. As with `fprintf(3)`, a failure to write is not reported.
///
/// What has been collected for standard output is older, and is written before it.
pub fn write_err(text: &str) {
    flush_out();
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Writes `text` to standard output, after what has been collected; see [`write_err`].
pub fn write_out(text: fmt::Arguments<'_>) {
    collect(text, 0);
}

/// Keeps `text` for standard output.
pub fn write_out_later(text: fmt::Arguments<'_>) {
    collect(text, ENOUGH);
}

/// Writes what has been collected: for a program that is about to wait, or to end.
pub fn flush_out() {
    collect(format_args!(""), 0);
}

/// Keeps `text`, and writes all that is kept if it is so many bytes.
fn collect(text: fmt::Arguments<'_>, enough: usize) {
    let mut later = LATER.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = fmt::Write::write_fmt(&mut *later, text);
    if !later.is_empty() && later.len() >= enough {
        let mut out = io::stdout().lock();
        let _ = out.write_all(later.as_bytes());
        let _ = out.flush();
        later.clear();
    }
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
