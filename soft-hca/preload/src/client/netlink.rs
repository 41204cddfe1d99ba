//! Sockets of netlink's RDMA family, by which the `rdma` command lists devices, and libibverbs learns that `fork`
//! copies pages of registered memory.
//!
//! A socket is one of netlink's protocol for user programs, so that all that a program may do with
//! it works, and answers are sent to it from another such socket. Only what it sends is taken.
//!
//! Programs that have rdma-core's libraries loaded get an empty list of devices, since these libraries then look
//! into sysfs: all their versions find a device there in the same way, whatever netlink says. A libibverbs that
//! opens such a socket is going to look for providers.
#![allow(unsafe_code, reason = "the program's own buffers")]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;

use soft_hca_core::errno::{Errno, Result};
use soft_hca_core::notes::Note;
use soft_hca_core::sysfs;
use soft_hca_core::uapi::nldev::{self, Device};

use crate::client::daemon;
use crate::client::files::table::{self, Entry};
use crate::client::loaded::{self, has_library};
use crate::client::notes::note;
use crate::client::outcome::Outcome;

/// Where the tree of sysfs is.
const SYSFS: &str = "SYSFS_PATH";
/// Libraries that use the family if they can.
const RDMA_CORE: [&str; 2] = [loaded::VERBS, "librdmacm"];

/// `socket(2)` with [`nldev::NETLINK_RDMA`]; `EPROTONOSUPPORT` if the program runs in no fabric.
pub fn socket(kind: i32) -> Result<RawFd> {
    loaded::prefer_brought_along();
    note(Note::Requested);
    devices().ok_or(Errno::EPROTONOSUPPORT)?;
    let fd = open(kind)?.into_raw_fd();
    table::insert(fd, Entry::Netlink);
    Ok(fd)
}

fn last_error() -> Errno {
    daemon::as_errno(&io::Error::last_os_error())
}

fn open(kind: i32) -> Result<OwnedFd> {
    // SAFETY: the call takes numbers and creates a descriptor, nothing else.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_USERSOCK) };
    // SAFETY: if there is one, it is nobody else's.
    if fd < 0 { Err(last_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
}

/// A datagram with requests. The answers lie in the socket when this returns.
pub(super) fn send(fd: RawFd, datagram: &[u8]) -> Result<usize> {
    let devices = devices().ok_or(Errno::ENODEV)?;
    let mut address = address(fd)?;
    if address.nl_pid == 0 {
        // A socket that sends without an address gets one.
        // SAFETY: the address is one of netlink's.
        unsafe { libc::bind(fd, (&raw const address).cast(), size_of_val(&address) as u32) };
        address = self::address(fd)?;
    }
    let sender = open(libc::SOCK_RAW | libc::SOCK_CLOEXEC)?;
    let looks_into_sysfs = RDMA_CORE.iter().any(|library| has_library(library));
    let listed = (!looks_into_sysfs).then_some(&devices[..]);
    for answer in nldev::answer(datagram, listed, address.nl_pid) {
        // SAFETY: the bytes are readable, and the address is one of netlink's.
        let sent = unsafe {
            libc::sendto(
                sender.as_raw_fd(),
                answer.as_ptr().cast(),
                answer.len(),
                libc::MSG_DONTWAIT,
                (&raw const address).cast(),
                size_of_val(&address) as u32,
            )
        };
        if sent < 0 {
            return Err(last_error());
        }
    }
    Ok(datagram.len())
}

/// `read(2)`
pub(super) fn receive(fd: RawFd, buffer: &mut [u8]) -> Result<Outcome> {
    // SAFETY: the buffer is borrowed for writing, and the call is told its length.
    let bytes =
        unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) };
    match usize::try_from(bytes) {
        Ok(bytes) => Ok(Outcome::Done(bytes)),
        Err(_) if last_error() == Errno::EAGAIN => Ok(Outcome::Wait),
        Err(_) => Err(last_error()),
    }
}

fn address(fd: RawFd) -> Result<libc::sockaddr_nl> {
    // SAFETY: an address consists of numbers, for which zeros are good.
    let mut address: libc::sockaddr_nl = unsafe { mem::zeroed() };
    let mut size = size_of_val(&address) as u32;
    // SAFETY: there is room for an address of this size.
    let ret = unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut size) };
    if ret < 0 { Err(last_error()) } else { Ok(address) }
}

/// The devices in the program's tree of sysfs; `None` in no fabric.
fn devices() -> Option<Vec<Device>> {
    std::env::var_os(SYSFS).map(|tree| sysfs::devices(Path::new(&tree)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_through_the_socket() {
        let found = devices();
        let socket = open(libc::SOCK_RAW | libc::SOCK_CLOEXEC).unwrap();
        let mut buffer = [0; 64];
        assert_eq!(receive(socket.as_raw_fd(), &mut buffer), Ok(Outcome::Wait));
        // The tests run in no fabric.
        assert_eq!(found, None);
        assert_eq!(send(socket.as_raw_fd(), &[]), Err(Errno::ENODEV));
    }
}
