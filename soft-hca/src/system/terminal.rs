//! The terminal.
#![allow(unsafe_code, reason = "ioctl")]

use std::io::Stdout;
use std::os::fd::AsRawFd;

/// Columns of the terminal that is written to, if it is one and knows.
pub fn columns(out: &Stdout) -> Option<u16> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptor is open, and the kernel writes a `winsize` to where one is.
    let ret = unsafe { libc::ioctl(out.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (ret == 0 && size.ws_col > 0).then_some(size.ws_col)
}
