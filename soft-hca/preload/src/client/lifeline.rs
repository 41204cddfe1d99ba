//! The connection by which `soft-hca run` keeps the fabric alive as long as its program and what that starts.
//!
//! These programs do not know of it. A program that closes all descriptors, as a daemon does when it begins, still is
//! in its fabric, and may open a device next; so this descriptor stays open. It is moved if a program duplicates
//! another file to its number.
#![allow(unsafe_code, reason = "a descriptor that nobody here has opened, and the environment")]

use std::ffi::{CStr, CString};
use std::mem;
use std::ops::RangeInclusive;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use soft_hca_core::config;

use crate::client::memory_owner;

/// No such descriptor.
const NONE: RawFd = -1;

/// The descriptor that the environment names, or [`NONE`].
static LIFELINE: AtomicI32 = AtomicI32::new(NONE);

/// A variable of the environment, read without the standard library's lock for that.
fn variable(name: &str) -> Option<&'static CStr> {
    let name = CString::new(name).ok()?;
    // SAFETY: a name that ends with NUL.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: `getenv` gives null or a C string of the environment, which nobody changes here.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

/// Reads the number of the descriptor from the environment.
pub(super) fn find() {
    let number = variable(config::LIFELINE).and_then(|value| value.to_str().ok()?.parse().ok());
    LIFELINE.store(number.unwrap_or(NONE), Relaxed);
}

/// Whether a descriptor is the lifeline: another file may have got its number.
pub fn is_lifeline(fd: RawFd) -> bool {
    fd != NONE && fd == LIFELINE.load(Relaxed) && leads_to_daemon(fd)
}

/// Whether a descriptor is a connection to a socket with the name of a daemon's.
fn leads_to_daemon(fd: RawFd) -> bool {
    // SAFETY: an address consists of numbers, for which zeros are good.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    let mut length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: there is room for an address of this length.
    let ret = unsafe { libc::getpeername(fd, (&raw mut address).cast(), &raw mut length) };
    let path = address.sun_path.map(|byte| byte as u8);
    let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
    let name = path[..end].strip_suffix(config::SOCKET.as_bytes());
    ret == 0 && name.is_some_and(|dir| dir.ends_with(b"/"))
}

/// The parts of a range of descriptors before and behind the lifeline.
pub fn keep_out_of(first: u32, last: u32) -> [RangeInclusive<u32>; 2] {
    /// A range without descriptors.
    const EMPTY: RangeInclusive<u32> = RangeInclusive::new(1, 0);
    let fd = LIFELINE.load(Relaxed);
    match u32::try_from(fd) {
        Ok(kept) if (first..=last).contains(&kept) && is_lifeline(fd) => {
            let before = if kept > first { first..=kept - 1 } else { EMPTY };
            [before, kept + 1..=last]
        }
        _ => [first..=last, EMPTY],
    }
}

/// Moves the lifeline if another file is about to get its number.
pub fn make_room(fd: RawFd) {
    if !is_lifeline(fd) || memory_owner::borrowed() {
        return;
    }
    // SAFETY: a descriptor that is open; the new one has the same flags, none.
    let moved = unsafe { libc::fcntl(fd, libc::F_DUPFD, fd + 1) };
    LIFELINE.store(moved, Relaxed);
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn it_is_kept_out_of_ranges_and_moves() {
        let dir = std::env::temp_dir().join(format!("soft-hca-lifeline-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let path = dir.join(config::SOCKET);
        let _listener = UnixListener::bind(&path).unwrap();
        let [line, other] = [&path, &path].map(|path| UnixStream::connect(path).unwrap());
        std::fs::remove_dir_all(&dir).unwrap();
        let fd = line.as_raw_fd();
        LIFELINE.store(fd, Relaxed);
        assert!(is_lifeline(fd) && !is_lifeline(other.as_raw_fd()) && !is_lifeline(NONE));
        let kept = fd as u32;
        assert_eq!(keep_out_of(0, u32::MAX), [0..=kept - 1, kept + 1..=u32::MAX]);
        assert_eq!(keep_out_of(kept, kept).map(|range| range.is_empty()), [true, true]);
        assert_eq!(keep_out_of(kept + 1, 4000)[0], kept + 1..=4000);
        memory_owner::claim();
        make_room(fd);
        drop(line);
        let moved = LIFELINE.load(Relaxed);
        assert!(moved > fd && is_lifeline(moved));
        // Another file gets its number at once, or another test's connection to a daemon may.
        let file = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: the descriptor was made above, and is the test's.
        assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), moved) }, moved);
        assert!(!is_lifeline(moved));
        // SAFETY: `dup2` has made it above, and nobody else has it.
        unsafe { libc::close(moved) };
    }
}
