//! Which descriptors of the process are ours.
//!
//! A child of `fork` has its parent's memory as it was at one moment, when other threads may have been in the midst of
//! a change. Programs close and duplicate descriptors in such children and in signal handlers. So there is no lock
//! here.

use std::mem;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;

use soft_hca_core::trace::event::{Open, OpenKind};

use crate::client::files::channel::Channel;
use crate::client::files::cm::CmFile;
use crate::client::files::uverbs::UverbsFile;
use crate::client::{doorbell, memory_owner};

/// The object behind a descriptor.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Uverbs(Arc<UverbsFile>),
    /// Asynchronous events of a device file, which may have been closed before.
    Async(Weak<UverbsFile>),
    Channel(Arc<Channel>),
    Cm(Arc<CmFile>),
    /// A socket of netlink's RDMA family.
    Netlink,
}

impl Entry {
    /// Whether this process, not its parent, has opened it.
    fn is_own(&self) -> bool {
        match self {
            Self::Uverbs(file) => file.process.is_current(),
            Self::Channel(channel) => channel.process.is_current(),
            Self::Cm(file) => file.process.is_current(),
            Self::Async(_) | Self::Netlink => true,
        }
    }

    /// Closes a parent's file in a child of `fork`: the child's copies of its descriptors are closed with the last one
    /// that names the file, and all else stays as it is, since a thread that the child does not have may have been
    /// changing it.
    fn leave_to_parent(self) {
        match self {
            Self::Uverbs(file) => {
                if let Some(file) = Arc::into_inner(file) {
                    file.leave_to_parent();
                }
            }
            Self::Channel(channel) => mem::forget(channel),
            Self::Cm(_) | Self::Async(_) | Self::Netlink => {}
        }
    }
}

/// Descriptors below this are looked up at once; programs seldom have more.
const QUICK: usize = 65536;

/// The quick answer for every call that has nothing to do with us.
static OURS: [AtomicBool; QUICK] = [const { AtomicBool::new(false) }; QUICK];

static TABLE: [ArcSwapOption<Entry>; QUICK] = [const { ArcSwapOption::const_empty() }; QUICK];

/// The place of a descriptor.
fn place(fd: RawFd) -> Option<usize> {
    usize::try_from(fd).ok().filter(|fd| *fd < QUICK)
}

/// Whether a descriptor is ours. A signal handler may call this.
pub fn ours(fd: RawFd) -> bool {
    place(fd).is_some_and(|fd| OURS[fd].load(Ordering::Acquire))
}

/// The object behind a descriptor.
pub(crate) fn get(fd: RawFd) -> Option<Entry> {
    TABLE[place(fd)?].load().as_deref().cloned()
}

/// Index in the arena of the shared receive queue that has a handle in a device file.
pub(crate) fn srq_index(fd: RawFd, handle: u32) -> Option<u32> {
    let Some(Entry::Uverbs(file)) = get(fd) else { return None };
    file.handles.srq(handle)
}

/// Puts something behind a descriptor. A number beyond the table's end stays unknown: no device
/// file works there.
pub(crate) fn insert(fd: RawFd, entry: Entry) {
    let Some(fd) = place(fd) else { return };
    let before = Closed(TABLE[fd].swap(Some(Arc::new(entry))));
    OURS[fd].store(true, Ordering::Release);
    drop(before);
}

/// Devices and completion channels that are open.
pub(crate) fn open() -> Vec<Open> {
    let open = (0..).zip(&TABLE).filter_map(|(fd, place)| {
        let kind = match place.load().as_deref()? {
            Entry::Uverbs(_) => OpenKind::Device,
            Entry::Channel(_) => OpenKind::CompletionChannel,
            Entry::Async(_) | Entry::Cm(_) | Entry::Netlink => return None,
        };
        Some(Open { kind: kind as u32, fd })
    });
    open.collect()
}

/// The object behind a descriptor that was closed. Files that nobody else has open end with this value.
#[derive(Debug)]
#[must_use]
pub struct Closed(Option<Arc<Entry>>);

impl Drop for Closed {
    fn drop(&mut self) {
        // A thread that looks the descriptor up at this moment keeps the entry until it is done.
        let Some(entry) = self.0.take().filter(|entry| !entry.is_own()) else { return };
        if let Some(entry) = Arc::into_inner(entry) {
            entry.leave_to_parent();
        }
    }
}

/// A descriptor is about to be closed.
pub fn close(fd: RawFd) -> Closed {
    if !ours(fd) || memory_owner::borrowed() {
        return Closed(None);
    }
    let place = fd as usize;
    OURS[place].store(false, Ordering::Release);
    doorbell::forget_all_of(fd);
    Closed(TABLE[place].swap(None))
}

/// Descriptors from `first` to `last` are about to be closed.
pub fn close_range(first: u32, last: u32) {
    if memory_owner::borrowed() {
        return;
    }
    let end = (last as usize + 1).min(QUICK);
    for fd in first as usize..end.max(first as usize) {
        drop(close(fd as RawFd));
    }
}

/// `new` now is the same file as `old`.
pub fn duplicate(old: RawFd, new: RawFd) {
    if old == new || memory_owner::borrowed() {
        return;
    }
    drop(close(new));
    if ours(old) {
        if let Some(entry) = get(old) {
            insert(new, entry);
        }
    }
}
