//! How a program starts: as one in C does, which matters where all of its work takes a
//! millisecond.
//!
//! Before it calls `fn main`, Rust's runtime reads `/proc/self/maps` to learn where the stack
//! ends, and prepares a message for its overflow; and the unwinder, which C does without, is one
//! library more to load. Together that is a fifth of the time that `device-list` takes where there
//! is no device. [`program!`](crate::program) gives the C library a `main` of its own, and the
//! unwinder is linked into the program.

use std::ffi::c_int;
use std::panic;
use std::process::ExitCode;

use crate::print;

// GCC's unwinder as a static library. If the linker prefers the shared one, that is used.
#[cfg(target_env = "gnu")]
#[link(name = "gcc_eh")]
unsafe extern "C" {}

/// What a Rust program that panics ends with.
const PANICKED: c_int = 101;

/// Makes a function the `main` of a program, in a crate that has
/// `#![cfg_attr(not(test), no_main)]`.
#[macro_export]
macro_rules! program {
    ($main:path) => {
        // SAFETY: the only `main` of the program, and as the C library calls it; it does not look
        // at `argc` and `argv`, which the standard library has from the loader.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        extern "C" fn main() -> std::ffi::c_int {
            $crate::start::run($main)
        }
    };
}

/// Calls a program's main function and returns its exit status.
///
/// As in other programs in Rust a stream that nobody reads is an error and not the signal
/// `SIGPIPE`, and a panic ends the program with status 101.
pub fn run(main: fn() -> ExitCode) -> c_int {
    // SAFETY: no handler is installed, and no other thread runs yet.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let status = panic::catch_unwind(main).map_or(PANICKED, status);
    print::flush_out();
    status
}

/// The number in an exit code, which the standard library does not tell.
fn status(code: ExitCode) -> c_int {
    (0..=u8::MAX).find(|&status| ExitCode::from(status) == code).map_or(1, c_int::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_ends_with_the_status_of_its_main_function() {
        assert_eq!(run(|| ExitCode::SUCCESS), 0);
        assert_eq!(run(|| ExitCode::FAILURE), 1);
        assert_eq!(run(|| ExitCode::from(255)), 255);
    }

    #[test]
    fn a_program_that_panics_ends_as_others_do() {
        assert_eq!(run(|| panic!("the test's own panic")), 101);
    }
}
