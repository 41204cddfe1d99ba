//! An opened uverbs device.

use std::collections::HashMap;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::client::cancel::put_off;
use crate::client::channel::{Channel, CqInfo};
use crate::client::process::{self, Opened, Process};
use crate::client::table::{self, Entry};
use crate::client::{Outcome, daemon, doorbell, memory};
use crate::errno::{Errno, Result};
use crate::rpc::{Connection, FileKind, Reply, Request};
use crate::system;
use crate::uapi::uverbs::{Command, command};

/// An opened uverbs device: the daemon has its objects, this knows the way to them.
#[derive(Debug)]
pub(crate) struct UverbsFile {
    connection: Mutex<Connection>,
    process: &'static Process,
    /// The descriptor for asynchronous events, until the program gets it.
    event_fd: Mutex<Option<OwnedFd>>,
    /// Queue pair numbers by handle, 0 for none.
    qps: RwLock<Vec<u32>>,
    /// Completion queues by handle.
    cqs: RwLock<HashMap<u32, KnownCq>>,
}

/// A completion queue, and the channel that it reports to.
type KnownCq = (Arc<CqInfo>, Option<Arc<Channel>>);

/// Opens the device; the descriptor also is what the provider maps rings from.
pub(crate) fn open(close_on_exec: bool) -> Result<RawFd> {
    let Opened { connection, process, arena_fd, event_fd, .. } = process::open(FileKind::Uverbs)?;
    let file = Arc::new(UverbsFile {
        connection: Mutex::new(connection),
        process,
        event_fd: Mutex::new(Some(system::hide(event_fd))),
        qps: RwLock::default(),
        cqs: RwLock::default(),
    });
    let fd = process::for_program(arena_fd, close_on_exec, false)?;
    table::insert(fd, Entry::Uverbs(file));
    Ok(fd)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl UverbsFile {
    /// `write(2)`: one command. What the data path needs is done here, all else by the daemon.
    pub(crate) fn write(self: &Arc<Self>, fd: RawFd, written: &[u8]) -> Result<usize> {
        let command = Command::parse(written)?;
        // The kernel lets only the process that opened the device command it.
        if !self.process.is_current() {
            return Err(Errno::EACCES);
        }
        match command.number {
            command::POST_SEND => self.post_send(&command)?,
            command::REQ_NOTIFY_CQ => self.req_notify(&command)?,
            _ => self.forward(fd, written, &command)?,
        }
        Ok(written.len())
    }

    fn post_send(&self, command: &Command<'_>) -> Result<()> {
        let handle = command.u32(8)? as usize;
        let qps = self.qps.read().unwrap_or_else(PoisonError::into_inner);
        let qpn = qps.get(handle).copied().filter(|qpn| *qpn != 0).ok_or(Errno::ENOENT)?;
        drop(qps);
        self.process.actor().doorbell(qpn)
    }

    fn req_notify(&self, command: &Command<'_>) -> Result<()> {
        let (handle, solicited_only) = (command.u32(0)?, command.u32(4)? != 0);
        let cqs = self.cqs.read().unwrap_or_else(PoisonError::into_inner);
        let (cq, _) = cqs.get(&handle).ok_or(Errno::ENOENT)?;
        self.process.actor().arm(cq.index, solicited_only);
        Ok(())
    }

    /// Has a command done by the daemon and brings the answer to where the program wants it.
    fn forward(self: &Arc<Self>, fd: RawFd, written: &[u8], command: &Command<'_>) -> Result<()> {
        let mut bytes = written.to_vec();
        let mut channel = None;
        match command.number {
            command::CREATE_CQ => channel = translate_channel(&mut bytes, 8 + 24)?,
            command::EX_CREATE_CQ => channel = translate_channel(&mut bytes, 24 + 16)?,
            command::REG_MR => {
                let (start, length) = (command.u64(8)?, command.u64(16)?);
                let writable = command.u32(36)? & 1 != 0;
                if length > 0 {
                    memory::populate(start, length, writable)?;
                }
            }
            _ => {}
        }
        let request = Request::Command { out_len: command.out_len as u32, bytes };
        let (mut reply, fds) = daemon::ask(&lock(&self.connection), &request)?;
        self.note(fd, command, &mut reply, fds, channel)?;
        let answer = &reply.bytes[..reply.bytes.len().min(command.out_len)];
        match command.number {
            command::MODIFY_SRQ if !reply.bytes.is_empty() => {
                memory::write(command.u64(16)?, &reply.bytes)
            }
            _ if answer.is_empty() => Ok(()),
            _ => {
                let at = command.response_at;
                let address = written.get(at..at + 8).ok_or(Errno::EINVAL)?;
                let address = u64::from_le_bytes(address.try_into().expect("eight bytes"));
                memory::write(address, answer)
            }
        }
    }

    /// Takes note of what a command has created or destroyed, and puts into the answer what only
    /// this process knows.
    fn note(
        self: &Arc<Self>,
        fd: RawFd,
        command: &Command<'_>,
        reply: &mut Reply,
        mut fds: Vec<OwnedFd>,
        channel: Option<Arc<Channel>>,
    ) -> Result<()> {
        match command.number {
            command::GET_CONTEXT => {
                let fd = lock(&self.event_fd).take().ok_or(Errno::EINVAL)?;
                let fd = process::for_program(fd, true, false)?;
                table::insert(fd, Entry::Async(Arc::downgrade(self)));
                reply.bytes[..4].copy_from_slice(&fd.to_le_bytes());
            }
            command::CREATE_COMP_CHANNEL => {
                let fd = fds.pop().ok_or(Errno::EIO)?;
                let [index, generation, ..] = reply.extra;
                let known = system::hide(fd.try_clone().map_err(|_| Errno::ENOMEM)?);
                self.process.env.remember_channel(index, generation, known);
                let channel = Channel {
                    index,
                    generation,
                    file: Arc::downgrade(self),
                    process: self.process,
                    queues: Mutex::default(),
                };
                let fd = process::for_program(fd, true, false)?;
                table::insert(fd, Entry::Channel(Arc::new(channel)));
                reply.bytes[..4].copy_from_slice(&fd.to_le_bytes());
            }
            command::CREATE_CQ | command::EX_CREATE_CQ => {
                let [index, generation, ..] = reply.extra;
                let info = Arc::new(CqInfo { index, generation, events_read: AtomicU32::new(0) });
                if let Some(channel) = &channel {
                    lock(&channel.queues).push(Arc::clone(&info));
                }
                let handle = word(&reply.bytes, 0);
                let mut cqs = self.cqs.write().unwrap_or_else(PoisonError::into_inner);
                cqs.insert(handle, (info, channel));
            }
            command::DESTROY_CQ => {
                let handle = command.u32(8)?;
                // The channel may end with its last queue: not under the lock.
                let removed =
                    self.cqs.write().unwrap_or_else(PoisonError::into_inner).remove(&handle);
                if let Some((info, channel)) = removed {
                    let read = info.events_read.load(Acquire);
                    reply.bytes[..4].copy_from_slice(&read.to_le_bytes());
                    if let Some(channel) = channel {
                        channel.forget(info.index);
                    }
                }
            }
            command::CREATE_QP | command::EX_CREATE_QP => {
                let [qpn, handle, ..] = reply.extra;
                doorbell::remember(fd, handle, qpn);
                let mut qps = self.qps.write().unwrap_or_else(PoisonError::into_inner);
                let handle = handle as usize;
                if qps.len() <= handle {
                    qps.resize(handle + 1, 0);
                }
                qps[handle] = qpn;
            }
            command::DESTROY_QP => {
                let handle = command.u32(8)?;
                let mut qps = self.qps.write().unwrap_or_else(PoisonError::into_inner);
                if let Some(qpn) = qps.get_mut(handle as usize) {
                    doorbell::forget(handle, *qpn);
                    *qpn = 0;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Tells the daemon that a channel is not needed any more.
    pub(crate) fn close_channel(&self, index: u32, generation: u32) {
        let request = Request::CloseChannel(index, generation);
        // A daemon that has gone has nothing to free.
        put_off(|| lock(&self.connection).send(&request.encode(), &[])).ok();
    }

    /// `read(2)` on the descriptor for asynchronous events.
    pub(crate) fn read_async(&self, buffer: &mut [u8]) -> Result<Outcome> {
        match daemon::ask(&lock(&self.connection), &Request::PopEvent) {
            Ok((reply, _)) => {
                let room = buffer.get_mut(..reply.bytes.len()).ok_or(Errno::EINVAL)?;
                room.copy_from_slice(&reply.bytes);
                Ok(Outcome::Done(reply.bytes.len()))
            }
            Err(Errno::EAGAIN) => Ok(Outcome::Wait),
            Err(error) => Err(error),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |w| u32::from_le_bytes(w.try_into().expect("four bytes")))
}

/// Puts the channel's index in the place of the program's descriptor.
fn translate_channel(bytes: &mut [u8], at: usize) -> Result<Option<Arc<Channel>>> {
    let field = bytes.get_mut(at..at + 4).ok_or(Errno::EINVAL)?;
    let fd = RawFd::from_le_bytes(field.try_into().expect("four bytes"));
    if fd == -1 {
        return Ok(None);
    }
    let Some(Entry::Channel(channel)) = table::get(fd) else { return Err(Errno::EBADF) };
    field.copy_from_slice(&channel.index.to_le_bytes());
    Ok(Some(channel))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_beyond_the_end_are_zero() {
        assert_eq!(word(&[1, 0, 0, 0], 0), 1);
        assert_eq!(word(&[1, 0, 0], 0), 0);
    }
}
