//! The C library's `errno` and its texts.

use std::ffi::CStr;

use crate::errln;

/// Value of `errno` as the last C call of this thread left it.
pub fn get() -> i32 {
    // SAFETY: the C library returns this thread's own errno, valid as long as the thread.
    unsafe { *libc::__errno_location() }
}

/// Sets this thread's `errno`. Verbs and connection-manager calls do not all set it when
/// they fail, so a caller who wants to report it clears it first.
pub fn set(value: i32) {
    // SAFETY: as in `get`; nobody else holds a reference to this thread's errno.
    unsafe { *libc::__errno_location() = value }
}

/// The POSIX `strerror_r(3)`: the text of an error number, or `None` if the C library has
/// none for it.
pub fn strerror_r(err: i32) -> Option<String> {
    let mut text = [0u8; 128];
    // SAFETY: the buffer is writable for the length given.
    let ret = unsafe { libc::strerror_r(err, text.as_mut_ptr().cast(), text.len()) };
    if ret != 0 {
        return None;
    }
    let text = CStr::from_bytes_until_nul(&text).ok()?;
    Some(text.to_string_lossy().into_owned())
}

/// `strerror(3)`: like [`strerror_r`], with a text for unknown numbers too.
pub fn strerror(err: i32) -> String {
    strerror_r(err).unwrap_or_else(|| format!("Unknown error {err}"))
}

/// `perror(3)`: one line on standard error, `message: text of errno`.
pub fn perror(message: &str) {
    let text = strerror(get());
    errln!("{message}: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_posix_texts() {
        assert_eq!(strerror_r(libc::ENOMEM).as_deref(), Some("Cannot allocate memory"));
        assert_eq!(strerror_r(libc::ECONNREFUSED).as_deref(), Some("Connection refused"));
        assert_eq!(strerror_r(9999), None);
        assert_eq!(strerror(9999), "Unknown error 9999");
    }

    #[test]
    fn errno_is_read_back() {
        set(libc::EPROTO);
        assert_eq!(get(), libc::EPROTO);
        set(0);
        assert_eq!(get(), 0);
    }
}
