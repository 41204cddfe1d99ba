//! Files in memory.
#![allow(unsafe_code, reason = "memory files and their seals")]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

use super::check;

/// A file that is nowhere but in memory. The name shows in /proc/PID/maps.
pub fn memory_file(name: &CStr) -> io::Result<File> {
    // SAFETY: the name is a C string.
    let fd = check(unsafe {
        libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
    })?;
    // SAFETY: `memfd_create` has made it above, and nobody else has it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Makes the size of a memory file what it is for ever: whoever else has it cannot take pages away
/// under those who have mapped it.
pub fn seal_size(file: &File) -> io::Result<()> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: the file is open as long as it is borrowed; the command takes a number.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }).map(drop)
}
