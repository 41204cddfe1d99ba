//! `pipe(2)`. The standard library's is only in Rust 1.87 and later.

use std::ffi::c_int;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// A new pipe: the end to read from and the end to write to. Programs that are started do not get
/// them. Dropping one closes it; the other end then is ready at once.
///
/// Errors: `EMFILE`, `ENFILE`.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds: [c_int; 2] = [-1; 2];
    // SAFETY: there is room for both descriptors.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: created above, and nobody else's.
    let [reader, writer] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((reader, writer))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn what_is_written_is_read_until_the_writer_is_dropped() {
        let (reader, writer) = pipe().unwrap();
        File::from(writer).write_all(b"one").unwrap();
        let mut text = String::new();
        File::from(reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "one");
    }
}
