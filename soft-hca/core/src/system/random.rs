//! Random numbers.
#![allow(unsafe_code, reason = "the system's random numbers")]

use super::now_ns;

/// A random number.
pub fn random() -> u64 {
    let mut number = now_ns();
    // SAFETY: eight bytes are writable. If the system gives none, the time has to do.
    unsafe { libc::getrandom((&raw mut number).cast(), 8, 0) };
    number
}
