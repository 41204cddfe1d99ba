//! The files that clients have opened, each a connection.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use soft_hca_core::engine::{Async, Subject};
use soft_hca_core::errno::{Errno, Refusal, Result};
use soft_hca_core::rpc::{Connection, FileKind};
use soft_hca_core::system;
use soft_hca_core::uapi::ucma::abi::{MigrateId, Request as _};
use soft_hca_roce::wire::bth::Qpn;
use zerocopy::IntoBytes;

use crate::device::Device;
use crate::event_fd::EventFd;
use crate::fabric::Fabric;
use crate::ucma::{Cm, FileId, Host, Peer};
use crate::uverbs::{Object, UverbsFile};

/// The file that a connection stands for.
#[derive(Debug)]
pub(crate) enum File {
    /// It has not said yet.
    New,
    /// It keeps the fabric alive or asks for listings.
    Bystander { pid: u32, kind: FileKind },
    /// An opened uverbs device. `tokens` are in the event descriptor.
    Uverbs { file: Box<UverbsFile>, event_fd: EventFd, tokens: usize },
    /// An opened rdma_cm device.
    Cm { proc: usize, file: FileId, event_fd: EventFd, tokens: usize },
}

/// All files by their tokens.
#[derive(Debug, Default)]
pub(crate) struct Files {
    files: BTreeMap<u32, (Connection, File)>,
    next: u32,
}

impl Files {
    pub(crate) fn insert(&mut self, connection: Connection) -> u32 {
        self.next = self.next.wrapping_add(1).max(1);
        self.files.insert(self.next, (connection, File::New));
        self.next
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(crate) fn connection(&self, token: u32) -> Option<&Connection> {
        self.files.get(&token).map(|(connection, _)| connection)
    }

    pub(crate) fn fd(&self, token: u32) -> Option<BorrowedFd<'_>> {
        self.connection(token).map(AsFd::as_fd)
    }

    pub(crate) fn is_new(&self, token: u32) -> bool {
        matches!(self.files.get(&token), Some((_, File::New)))
    }

    pub(crate) fn set(&mut self, token: u32, file: File) {
        if let Some((_, slot)) = self.files.get_mut(&token) {
            *slot = file;
        }
    }

    pub(crate) fn get(&self, token: u32) -> Option<&File> {
        self.files.get(&token).map(|(_, file)| file)
    }

    pub(crate) fn get_mut(&mut self, token: u32) -> Option<&mut File> {
        self.files.get_mut(&token).map(|(_, file)| file)
    }

    pub(crate) fn remove(&mut self, token: u32) -> Option<File> {
        self.files.remove(&token).map(|(_, file)| file)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &File)> {
        self.files.iter().map(|(&token, (_, file))| (token, file))
    }

    /// The opened devices.
    pub(crate) fn uverbs_mut(&mut self) -> impl Iterator<Item = &mut UverbsFile> {
        self.files.values_mut().filter_map(|(_, file)| match file {
            File::Uverbs { file, .. } => Some(&mut **file),
            _ => None,
        })
    }

    /// The tokens of files that have opened a device which has not been removed since.
    pub(crate) fn of_device(&self, device: usize) -> Vec<u32> {
        let is_meant = |file: &File| match file {
            File::Uverbs { file, .. } => file.device.index == device && !file.is_removed(),
            _ => false,
        };
        self.iter().filter(|(_, file)| is_meant(file)).map(|(token, _)| token).collect()
    }

    /// The connection manager's numbers of its files, by token.
    pub(crate) fn cm_files(&self) -> HashMap<u32, FileId> {
        let number = |(token, file): (u32, &File)| match file {
            File::Cm { file, .. } => Some((token, *file)),
            _ => None,
        };
        self.iter().filter_map(number).collect()
    }

    /// Makes each event descriptor hold as many tokens as there are events behind it.
    pub(crate) fn sync_eventfds(&mut self, cm: &Cm) {
        for (_, file) in self.files.values_mut() {
            let (pending, event_fd, tokens) = match file {
                File::Uverbs { file, event_fd, tokens } => {
                    (file.async_events.len(), event_fd, tokens)
                }
                File::Cm { file, event_fd, tokens, .. } => {
                    (cm.pending_events(*file), event_fd, tokens)
                }
                File::New | File::Bystander { .. } => continue,
            };
            event_fd.add(pending.saturating_sub(*tokens) as u64);
            for _ in pending..*tokens {
                event_fd.take();
            }
            *tokens = pending;
        }
    }
}

/// MIGRATE_ID's payload names the old channel's file by token; the connection manager wants its
/// own number.
pub(crate) fn translate_migration(payload: &mut [u8], files: &HashMap<u32, FileId>) -> Result<()> {
    const NO_FILE: Errno = Errno::EBADF.because(Refusal::IdFromOtherFile);
    let request = MigrateId::read(payload)?;
    let file = *files.get(&(request.fd as u32)).ok_or(NO_FILE)?;
    let request = MigrateId { fd: file as i32, ..request };
    payload[..size_of::<MigrateId>()].copy_from_slice(request.as_bytes());
    Ok(())
}

/// Queues the asynchronous event that the data path has raised.
pub(crate) fn raise(files: &mut Files, fabric: &Fabric, what: Async) {
    let arena = &fabric.arena;
    let (token, object, element, is_due) = match what.subject() {
        Subject::Cq(index) => {
            let index = index as usize;
            let Some(cq) = fabric.cqs.get(index) else { return };
            let is_due = arena.cqs[index].overflows.load(Acquire) > 0;
            (cq.file, Object::Cq { index }, cq.user_handle, is_due)
        }
        Subject::Srq(index) => {
            let index = index as usize;
            let Some(srq) = fabric.srqs.get(index) else { return };
            let is_due = arena.srqs[index].limit_reached.swap(0, AcqRel) > 0;
            (srq.file, Object::Srq { index, pd: srq.pd }, srq.user_handle, is_due)
        }
        Subject::Qp(qpn) => {
            let Some((index, qp)) = fabric.qp_of(qpn) else { return };
            (qp.file, Object::Qp { index, pd: qp.pd }, qp.user_handle, true)
        }
    };
    let Some(File::Uverbs { file, .. }) = files.get_mut(token) else { return };
    let handle = file.handles.iter().find(|(_, other)| *other == object);
    let Some((handle, _)) = handle else { return };
    if let Async::CqOverflow(_) = what {
        let pid = fabric.processes.pid(file.proc);
        tracing::warn!(pid, cq_handle = handle, "a completion queue is full: completions are lost");
    }
    if is_due {
        file.queue_async(Some(handle), element, what.event_type());
    }
}

/// The connection manager's environment.
pub(crate) struct CmHost<'a> {
    pub fabric: &'a mut Fabric,
}

impl Host for CmHost<'_> {
    fn devices(&self) -> &[Arc<Device>] {
        &self.fabric.devices
    }

    fn random24(&mut self) -> u32 {
        system::random() as u32 & 0xff_ffff
    }

    fn route(&self, to: IpAddr) -> Result<IpAddr> {
        crate::device::route(to)
    }

    fn find_peer(&self, ip: IpAddr) -> Option<Peer> {
        if self.find_source(ip).is_some() {
            // From an address to itself: the system would choose that one as well.
            let is_remote = self.fabric.roce.is_taken_to_self(ip, ip);
            return Some(if is_remote {
                Peer::Remote { own: ip, address: ip }
            } else {
                Peer::Local
            });
        }
        let own = self.fabric.roce.can_reach(ip)?;
        Some(Peer::Remote { own, address: ip })
    }

    fn has_way(&self, own: IpAddr, to: IpAddr) -> bool {
        self.find_source(to).is_none() || self.fabric.roce.is_taken_to_self(own, to)
    }

    fn knows_neighbour(&self, own: IpAddr, to: IpAddr) -> bool {
        self.fabric.roce.knows_neighbour(own, to)
    }

    fn has_heard(&self, qpn: Qpn) -> bool {
        let qp = self.fabric.arena.qp(qpn.get());
        qp.is_some_and(|qp| qp.received.load().sends > 0)
    }

    fn path_mtu(&self, own: IpAddr) -> u8 {
        let source = self.find_source(own);
        source.map_or(0, |source| source.path_mtu())
    }
}
