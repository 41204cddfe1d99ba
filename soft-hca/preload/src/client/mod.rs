//! A program's side: what stands behind the descriptors that it takes for device files.
//!
//! The preloaded library asks here for every call on a descriptor that is [`ours`]. Nothing here
//! waits for an event: where the kernel would block, [`Outcome::Wait`] is the answer, and the
//! caller waits in a way that the program can interrupt and cancel.
//!
//! From the outside in:
//!
//! | module | what it is |
//! | --- | --- |
//! | `uverbs`, `cm`, `netlink` | commands on a descriptor |
//! | `hook` | functions of the provider's that pass through this library |
//! | `recorded` | what a program calls, traced |
//! | `files` | what stands behind a descriptor |
//! | `strict` | a program that is run strictly |
//! | `sanitizer` | a program with a sanitizer, which is told of the device |
//! | `acknowledged` | events that the program has taken and acknowledged |
//! | `polled`, `receives` | completions that are polled, and buffers of receives, traced |
//! | `forks`, `forked` | children of `fork` |
//! | `site` | where in its program a thread is |
//! | `sets` | sets of `epoll` with completion channels |
//! | `port_lease` | the port to other hosts, as far as this process runs it |
//! | `in_vain` | polls that find nothing |
//! | `process`, `env` | this process as a member of the fabric, and what the data path asks of it |
//! | `buffers` | buffers of sends, compared |
//! | `outstanding`, `lists` | requests whose completions were not polled, and lists of receives |
//! | `optional_access` | flags of regions that the library leaves out |
//! | `doorbell` | the short way from a doorbell to a queue pair |
//! | `lifeline`, `daemon` | connections to the daemon |
//! | `loaded` | libraries of the process |
//! | `cq`, `layout`, `functions` | completion queues, and structures and functions of `verbs.h` |
//! | `memory` | the program's memory, by addresses that may be wrong |
//! | `notes`, `stderr`, `outcome` | notes for `soft-hca doctor`, lines for people, outcomes of calls |
//! | `cancel`, `identity`, `memory_owner`, `of_process` | threads that are cancelled, children of `fork` and `vfork` |
//!
//! A module uses those below it. From `process` on downwards is the state of the process; what stands behind a
//! descriptor is in `files`, and knows the process that has opened it.

mod acknowledged;
mod buffers;
mod cancel;
mod cm;
mod cq;
mod daemon;
mod doorbell;
mod env;
mod files;
mod forked;
mod forks;
mod functions;
mod hook;
mod identity;
mod in_vain;
mod layout;
mod lifeline;
mod lists;
mod loaded;
mod memory;
mod memory_owner;
mod netlink;
mod notes;
mod of_process;
mod optional_access;
mod outcome;
mod outstanding;
mod polled;
mod port_lease;
mod process;
mod receives;
mod recorded;
mod sanitizer;
mod sets;
mod site;
mod stderr;
mod strict;
mod uverbs;

use std::os::fd::RawFd;

use soft_hca_core::device_file::DeviceFile;
use soft_hca_core::errno::{Errno, Result};
use soft_hca_core::notes::Note;
use soft_hca_core::rpc::FULL;
use soft_hca_core::trace::{self, Site};
use soft_hca_core::uapi::ioctl::{self, AdviseMr, Method};

use files::table::{self, Entry};

pub use cancel::put_off;
pub use files::table::{close, close_range, duplicate, ours};
pub use lifeline::{is_lifeline, keep_out_of, make_room};
pub use netlink::socket;
pub(crate) use of_process::OfProcess;
pub use optional_access::registering;
pub use outcome::Outcome;
pub use port_lease::AtPort;
pub use recorded::{acknowledges, exits, fault_happened, wait};
pub use sets::closes_set;
pub use strict::{skips_sleeps, sleep};

/// Prepares a process that begins.
pub fn starts() {
    forks::watch();
    lifeline::find();
    strict::starts();
}

/// Libraries that a sanitizer knows nothing of are about to begin.
pub fn libraries_begin() {
    sanitizer::leaves_libraries();
}

/// Where in its program the calling thread is, if all is recorded; for [`trace::at`].
pub fn calling_site() -> Site {
    site::of_command()
}

/// A descriptor to watch beside the one that is waited for: when it hangs up, the daemon is gone, and
/// [`daemon_is_gone`] is to be called.
pub fn watched() -> Option<RawFd> {
    port_lease::daemon()
}

/// The process gives up what belongs to a daemon that is gone.
pub fn daemon_is_gone() {
    put_off(port_lease::give_up);
}

/// Opens a device file. `EIO` if this program does not run in a fabric.
pub fn open(device: DeviceFile, flags: i32) -> Result<RawFd> {
    let close_on_exec = flags & libc::O_CLOEXEC != 0;
    let nonblocking = flags & libc::O_NONBLOCK != 0;
    let opened = match device {
        DeviceFile::Uverbs(device) => uverbs::open(device, close_on_exec),
        DeviceFile::Cm => cm::open(close_on_exec, nonblocking),
    };
    if let Some(reason) =
        opened.as_ref().err().filter(|error| **error == FULL).and_then(|e| e.reason())
    {
        stderr::say(&format!("this program gets no device: {reason}"));
    }
    notes::note(match &opened {
        Ok(_) => Note::Opened(device),
        Err(error) => Note::Refused(device, *error),
    });
    opened
}

/// `write(2)`, if it is the doorbell of a queue pair that is known to be this process's.
pub fn ring_doorbell(fd: RawFd, written: &[u8]) -> Option<Result<usize>> {
    let qpn = doorbell::qpn_of(fd, written)?;
    let process = process::current()?;
    if process.arena.is_watched() {
        sanitizer::posts(process, qpn);
    }
    let done = if process.env.recorder.is_on() {
        polled::over(process);
        trace::at(site::of_command(), || process.actor().doorbell(qpn))
    } else {
        process.actor().doorbell(qpn)
    };
    if done == Err(Errno::ENOENT) {
        // The long way finds out why.
        return None;
    }
    if let Err(error) = done {
        note_refused_doorbell(process, fd, written, error);
    }
    Some(done.map(|()| written.len()))
}

#[cold]
fn note_refused_doorbell(process: &process::Process, fd: RawFd, request: &[u8], error: Errno) {
    if let Some(call) = recorded::begin(process) {
        recorded::doorbell_refused();
        let result = Err(error);
        let called =
            recorded::Called { fd, is_cm: false, request, result, created: 0, unacknowledged: 0 };
        call.end(process, &called);
    }
}

/// The program is about to write to a file that is none of ours, which may tell another process something.
pub fn tells_others() {
    if let Some(process) = process::current() {
        put_off(|| sanitizer::says(process));
    }
}

/// The program has read from a file that is none of ours, by which another process may have told it something.
pub fn has_heard() {
    if let Some(process) = process::current() {
        put_off(|| sanitizer::hears(process));
    }
}

/// `write(2)`: a command.
pub fn write(fd: RawFd, bytes: &[u8]) -> Result<Outcome> {
    match table::get(fd).ok_or(Errno::EBADF)? {
        Entry::Uverbs(file) => file.write(fd, bytes).map(Outcome::Done),
        Entry::Cm(file) => file.write(fd, bytes),
        Entry::Netlink => netlink::send(fd, bytes).map(Outcome::Done),
        Entry::Async(_) | Entry::Channel(_) => Err(Errno::EINVAL),
    }
}

/// `ioctl(2)` with `RDMA_VERBS_IOCTL` and the address of a request.
pub fn ioctl(fd: RawFd, address: u64) -> Result<()> {
    let Some(Entry::Uverbs(file)) = table::get(fd) else { return Err(Errno::ENOTTY) };
    let header = memory::read(address, ioctl::HEADER)?;
    match ioctl::method(header.try_into().map_err(|_| Errno::EFAULT)?) {
        Method::AdviseMr(length) => file.advise(&AdviseMr::parse(&memory::read(address, length)?)?),
        Method::Refused(error) => Err(error),
    }
}

/// Whether a descriptor is a socket of netlink's RDMA family, to which `send(2)` and its kin are
/// [`write()`].
pub fn is_netlink(fd: RawFd) -> bool {
    matches!(table::get(fd), Some(Entry::Netlink))
}

/// `read(2)` of an event; `has_waited` says whether the thread has waited for it here.
pub fn read(fd: RawFd, buffer: &mut [u8], has_waited: bool) -> Result<Outcome> {
    match table::get(fd).ok_or(Errno::EBADF)? {
        Entry::Async(file) => file.upgrade().ok_or(Errno::EIO)?.read_async(fd, buffer),
        Entry::Channel(channel) => {
            let done = channel.read(buffer)?;
            if matches!(done, Outcome::Done(_)) {
                port_lease::takes_event();
            }
            if !has_waited && matches!(done, Outcome::Done(_)) {
                recorded::takes_event(channel.process, fd);
            }
            Ok(done)
        }
        Entry::Netlink => netlink::receive(fd, buffer),
        Entry::Uverbs(_) | Entry::Cm(_) => Err(Errno::EINVAL),
    }
}

/// Whether this process has sockets of the port to other hosts.
pub fn has_port() -> bool {
    port_lease::daemon().is_some()
}

/// Whether descriptors bring completion events: channels, and sets of `epoll` that have some.
pub fn may_bring_events(fds: impl IntoIterator<Item = RawFd>) -> bool {
    let is_channel = |fd| matches!(table::get(fd), Some(Entry::Channel(_)));
    fds.into_iter().any(|fd| is_channel(fd) || sets::is_set_with_channels(fd))
}

/// A descriptor has come to a set of `epoll`.
pub fn joins_set(set: RawFd, fd: RawFd) {
    if may_bring_events([fd]) {
        sets::has_channel(set);
    }
}

/// A thread is about to wait for descriptors that bring completion events: at the port, too.
pub fn wait_at_port() -> Option<AtPort> {
    AtPort::begin()
}

/// The device file behind a descriptor, for `fstat(2)`; `None` for event descriptors.
pub fn device(fd: RawFd) -> Option<DeviceFile> {
    match table::get(fd)? {
        Entry::Uverbs(file) => Some(DeviceFile::Uverbs(file.device)),
        Entry::Cm(_) => Some(DeviceFile::Cm),
        Entry::Async(_) | Entry::Channel(_) | Entry::Netlink => None,
    }
}
