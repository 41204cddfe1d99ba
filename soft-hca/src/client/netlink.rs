//! Sockets of netlink's RDMA family, by which the `rdma` command lists devices.
//!
//! A socket is one of netlink's protocol for user programs, so that all that a program may do with
//! it works, and answers are sent to it from another such socket. Only what it sends is taken.
//!
//! rdma-core's libraries get no such socket, since they then look into sysfs: how they find a
//! device is the same in all versions, and does not depend on what is said here.
#![allow(unsafe_code, reason = "the program's own buffers")]

use std::ffi::CString;
use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use crate::client::Outcome;
use crate::client::process;
use crate::client::table::{self, Entry};
use crate::errno::{Errno, Result};
use crate::system;
use crate::uapi::nldev::{self, Link};

/// Where the tree of sysfs is.
const SYSFS: &str = "SYSFS_PATH";
/// Libraries that use the family if they can.
const RDMA_CORE: [&str; 2] = ["libibverbs.so", "librdmacm.so"];

/// `socket(2)` with [`nldev::NETLINK_RDMA`]; `EPROTONOSUPPORT` if the program is to look into
/// sysfs, or runs in no fabric.
pub fn socket(kind: i32) -> Result<RawFd> {
    if RDMA_CORE.iter().any(|library| system::has_library(library)) || link().is_none() {
        return Err(Errno::EPROTONOSUPPORT);
    }
    let fd = open(kind)?.into_raw_fd();
    table::insert(fd, Entry::Netlink);
    Ok(fd)
}

fn last_error() -> Errno {
    process::as_errno(&io::Error::last_os_error())
}

fn open(kind: i32) -> Result<OwnedFd> {
    // SAFETY: makes a new descriptor.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_USERSOCK) };
    // SAFETY: if there is one, it is nobody else's.
    if fd < 0 { Err(last_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
}

/// A datagram with requests. The answers lie in the socket when this returns.
pub(super) fn send(fd: RawFd, datagram: &[u8]) -> Result<usize> {
    let link = link().ok_or(Errno::ENODEV)?;
    let mut address = address(fd)?;
    if address.nl_pid == 0 {
        // A socket that sends without an address gets one.
        // SAFETY: the address is one of netlink's.
        unsafe { libc::bind(fd, (&raw const address).cast(), size_of_val(&address) as u32) };
        address = self::address(fd)?;
    }
    let sender = open(libc::SOCK_RAW | libc::SOCK_CLOEXEC)?;
    for answer in nldev::answer(datagram, &link, address.nl_pid) {
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
    // SAFETY: the buffer is writable.
    let bytes =
        unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) };
    match usize::try_from(bytes) {
        Ok(bytes) => Ok(Outcome::Done(bytes)),
        Err(_) if last_error() == Errno::EAGAIN => Ok(Outcome::Wait),
        Err(_) => Err(last_error()),
    }
}

fn address(fd: RawFd) -> Result<libc::sockaddr_nl> {
    // SAFETY: zeros are a valid address.
    let mut address: libc::sockaddr_nl = unsafe { mem::zeroed() };
    let mut size = size_of_val(&address) as u32;
    // SAFETY: there is room for an address of this size.
    let ret = unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut size) };
    if ret < 0 { Err(last_error()) } else { Ok(address) }
}

/// What the program's tree of sysfs says.
fn link() -> Option<Link> {
    let devices = PathBuf::from(std::env::var_os(SYSFS)?).join("class/infiniband");
    let device = fs::read_dir(devices).ok()?.flatten().next()?;
    read_link(&device.path())
}

fn read_link(device: &Path) -> Option<Link> {
    let read = |file: &str| {
        let text = fs::read_to_string(device.join(file)).ok()?;
        Some(text.trim_end().to_owned())
    };
    // "4: ACTIVE"
    let state = |file: &str| read(file)?.split(':').next()?.parse().ok();
    let netdev = read("parent").unwrap_or_default();
    let name = CString::new(netdev.as_str()).ok()?;
    Some(Link {
        device: device.file_name()?.to_str()?.to_owned(),
        node_guid: u64::from_str_radix(&read("node_guid")?.replace(':', ""), 16).ok()?,
        port_caps: u64::from_str_radix(read("ports/1/cap_mask")?.strip_prefix("0x")?, 16).ok()?,
        state: state("ports/1/state")?,
        phys_state: state("ports/1/phys_state")?,
        // SAFETY: a name that ends with NUL.
        netdev_index: unsafe { libc::if_nametoindex(name.as_ptr()) },
        netdev,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Addresses;
    use crate::sysfs;

    #[test]
    fn the_tree_is_read() {
        let dir = std::env::temp_dir().join(format!("soft-hca-link-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let addresses = Addresses::local();
        sysfs::write(&dir, "rxe7", 0x0273_5cff_fed2_226d, &addresses).unwrap();
        let link = read_link(&sysfs::tree(&dir, "rxe7").join("class/infiniband/rxe7")).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!((link.device.as_str(), link.node_guid), ("rxe7", 0x0273_5cff_fed2_226d));
        assert_eq!((link.state, link.phys_state, link.port_caps), (4, 5, 0x10000));
        assert_eq!(link.netdev, addresses.netdev());
        assert_ne!(link.netdev_index, 0);
    }

    #[test]
    fn answers_come_through_the_socket() {
        let link_tree = link();
        let socket = open(libc::SOCK_RAW | libc::SOCK_CLOEXEC).unwrap();
        let mut buffer = [0; 64];
        assert_eq!(receive(socket.as_raw_fd(), &mut buffer), Ok(Outcome::Wait));
        // The tests run in no fabric.
        assert!(link_tree.is_none());
        assert_eq!(send(socket.as_raw_fd(), &[]), Err(Errno::ENODEV));
    }
}
