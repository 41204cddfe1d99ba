//! Which descriptors of the process are ours.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use soft_hca_core::trace::event::{Open, OpenKind};

use crate::client::channel::Channel;
use crate::client::cm::CmFile;
use crate::client::uverbs::UverbsFile;
use crate::client::{doorbell, memory_owner};

/// What stands behind a descriptor.
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

/// Descriptors below this are looked up at once; programs seldom have more.
const QUICK: usize = 65536;

/// The quick answer for every call that has nothing to do with us.
static OURS: [AtomicBool; QUICK] = [const { AtomicBool::new(false) }; QUICK];

static TABLE: RwLock<BTreeMap<RawFd, Entry>> = RwLock::new(BTreeMap::new());

/// Whether a descriptor is ours. Takes no lock and may be asked from a signal handler.
pub fn ours(fd: RawFd) -> bool {
    usize::try_from(fd)
        .ok()
        .and_then(|fd| OURS.get(fd))
        .is_some_and(|ours| ours.load(Ordering::Acquire))
}

/// What stands behind a descriptor.
pub(crate) fn get(fd: RawFd) -> Option<Entry> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner).get(&fd).cloned()
}

/// Puts something behind a descriptor. A number beyond the table's end stays unknown: no device
/// file works there.
pub(crate) fn insert(fd: RawFd, entry: Entry) {
    memory_owner::remember();
    if let Some(ours) = OURS.get(fd as usize) {
        let before = TABLE.write().unwrap_or_else(PoisonError::into_inner).insert(fd, entry);
        ours.store(true, Ordering::Release);
        // Closing a file speaks to the daemon: not under the lock.
        drop(before);
    }
}

/// Devices and completion channels that are open.
pub(crate) fn open() -> Vec<Open> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let open = table.iter().filter_map(|(fd, entry)| {
        let kind = match entry {
            Entry::Uverbs(_) => OpenKind::Device,
            Entry::Channel(_) => OpenKind::CompletionChannel,
            Entry::Async(_) | Entry::Cm(_) | Entry::Netlink => return None,
        };
        Some(Open { kind: kind as u32, fd: *fd })
    });
    open.collect()
}

/// What stood behind a descriptor. Files that nobody else has open end with this value.
#[derive(Debug)]
#[must_use]
pub struct Closed(#[expect(dead_code, reason = "it is only dropped")] Option<Entry>);

/// A descriptor is about to be closed.
pub fn close(fd: RawFd) -> Closed {
    if !ours(fd) || memory_owner::borrowed() {
        return Closed(None);
    }
    OURS[fd as usize].store(false, Ordering::Release);
    doorbell::forget_all_of(fd);
    Closed(TABLE.write().unwrap_or_else(PoisonError::into_inner).remove(&fd))
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
