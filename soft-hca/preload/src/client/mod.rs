//! A program's side: what stands behind the descriptors that it takes for device files.
//!
//! The preloaded library asks here for every call on a descriptor that is [`ours`]. Nothing here
//! waits for an event: where the kernel would block, [`Outcome::Wait`] is the answer, and the
//! caller waits in a way that the program can interrupt and cancel.

pub mod acknowledged;
mod buffers;
mod cancel;
mod channel;
mod cm;
mod daemon;
mod doorbell;
mod env;
mod forked;
mod forks;
mod hook;
mod identity;
mod in_vain;
mod lifeline;
mod loaded;
mod memory;
mod memory_owner;
mod netlink;
mod of_process;
mod on_demand;
mod polled;
mod process;
mod receives;
mod recorded;
mod regions;
mod share;
mod site;
mod strict;
mod table;
mod tokens;
mod uverbs;

use std::os::fd::RawFd;

use soft_hca_core::config;
use soft_hca_core::device_file::DeviceFile;
use soft_hca_core::errno::{Errno, Refusal, Result};
use soft_hca_core::notes::{self, Note};
use soft_hca_core::rpc::FULL;
use soft_hca_core::trace::{self, Site};
use soft_hca_core::uapi::ioctl::{self, AdviseMr, Method};

pub use cancel::put_off;
pub use lifeline::{is_lifeline, keep_out_of, make_room};
pub use netlink::socket;
pub(crate) use of_process::OfProcess;
pub use recorded::{exits, fault_happened, wait};
pub use table::{close, close_range, duplicate, ours};

/// A command of another process than the one that has opened the device file: a child of `fork`.
const OF_PARENT: Errno = Errno::EACCES.because(Refusal::ChildOfFork);

/// Prepares a process that begins.
pub fn starts() {
    forks::watch();
    lifeline::find();
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done: so many bytes.
    Done(usize),
    /// There is nothing yet: wait until the descriptor is readable, then ask again.
    Wait,
}

/// Where in its program the calling thread is, if all is recorded; for [`trace::at`].
pub fn site() -> Site {
    site::of_command()
}

/// What to watch beside a descriptor that is waited for: when it hangs up, the daemon is gone, and
/// [`daemon_is_gone`] is to be called.
pub fn watched() -> Option<RawFd> {
    share::daemon()
}

/// The process gives up what belongs to a daemon that is gone.
pub fn daemon_is_gone() {
    put_off(share::give_up);
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
        process::say(&format!("this program gets no device: {reason}"));
    }
    note(match &opened {
        Ok(_) => Note::Opened(device),
        Err(error) => Note::Refused(device, *error),
    });
    opened
}

/// Notes something for `soft-hca doctor -- CMD`, if that has started this program.
fn note(noted: Note) {
    if let Some(dir) = config::fabric_dir_of_program() {
        notes::note(&dir, noted);
    }
}

/// `write(2)`, if it is the doorbell of a queue pair that is known to be this process's.
pub fn doorbell(fd: RawFd, written: &[u8]) -> Option<Result<usize>> {
    let qpn = doorbell::qpn_of(fd, written)?;
    let process = process::current()?;
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

/// `write(2)`: a command.
pub fn write(fd: RawFd, bytes: &[u8]) -> Result<Outcome> {
    match table::get(fd).ok_or(Errno::EBADF)? {
        table::Entry::Uverbs(file) => file.write(fd, bytes).map(Outcome::Done),
        table::Entry::Cm(file) => file.write(fd, bytes),
        table::Entry::Netlink => netlink::send(fd, bytes).map(Outcome::Done),
        table::Entry::Async(_) | table::Entry::Channel(_) => Err(Errno::EINVAL),
    }
}

/// `ioctl(2)` with `RDMA_VERBS_IOCTL` and the address of a request.
pub fn ioctl(fd: RawFd, address: u64) -> Result<()> {
    let Some(table::Entry::Uverbs(file)) = table::get(fd) else { return Err(Errno::ENOTTY) };
    let header = memory::read(address, ioctl::HEADER)?;
    match ioctl::method(header.try_into().map_err(|_| Errno::EFAULT)?) {
        Method::AdviseMr(length) => file.advise(&AdviseMr::parse(&memory::read(address, length)?)?),
        Method::Refused(error) => Err(error),
    }
}

/// Whether a descriptor is a socket of netlink's RDMA family, to which `send(2)` and its kin are
/// [`write()`].
pub fn is_netlink(fd: RawFd) -> bool {
    matches!(table::get(fd), Some(table::Entry::Netlink))
}

/// `read(2)` of an event; `has_waited` says whether the thread has waited for it here.
pub fn read(fd: RawFd, buffer: &mut [u8], has_waited: bool) -> Result<Outcome> {
    match table::get(fd).ok_or(Errno::EBADF)? {
        table::Entry::Async(file) => file.upgrade().ok_or(Errno::EIO)?.read_async(fd, buffer),
        table::Entry::Channel(channel) => {
            let done = channel.read(buffer)?;
            if !has_waited && matches!(done, Outcome::Done(_)) {
                recorded::takes_event(channel.process, fd);
            }
            Ok(done)
        }
        table::Entry::Netlink => netlink::receive(fd, buffer),
        table::Entry::Uverbs(_) | table::Entry::Cm(_) => Err(Errno::EINVAL),
    }
}

/// The device file behind a descriptor, for `fstat(2)`; `None` for event descriptors.
pub fn device(fd: RawFd) -> Option<DeviceFile> {
    match table::get(fd)? {
        table::Entry::Uverbs(file) => Some(DeviceFile::Uverbs(file.device)),
        table::Entry::Cm(_) => Some(DeviceFile::Cm),
        table::Entry::Async(_) | table::Entry::Channel(_) | table::Entry::Netlink => None,
    }
}
