//! Completion channels.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use soft_hca_core::engine::Reading;
use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::rpc::{ChannelId, Connection, Request};
use soft_hca_core::system;
use soft_hca_core::uapi::uverbs::answer::CompEventDesc;
use zerocopy::IntoBytes;

use crate::client::cancel::put_off;
use crate::client::cq::CqInfo;
use crate::client::outcome::Outcome;
use crate::client::process::Process;
use crate::client::{acknowledged, daemon, sanitizer, strict};

/// A completion channel: its tokens are in an event descriptor, its events in the queues.
#[derive(Debug)]
pub(crate) struct Channel {
    pub id: ChannelId,
    /// The connection of the device file that it was created through, with which it ends at the latest.
    pub connection: Weak<Mutex<Connection>>,
    pub process: &'static Process,
    /// The event descriptor, with a token for each event.
    pub tokens: Arc<OwnedFd>,
    /// The connection that hangs up when the daemon is gone.
    pub line: Arc<OwnedFd>,
    /// The queues that report here. The next event is looked for behind the last one's queue.
    pub queues: Mutex<Vec<Arc<CqInfo>>>,
}

/// The program has closed the channel, and no queue reports there.
impl Drop for Channel {
    fn drop(&mut self) {
        // A channel that a child of `fork` closes stays its parent's.
        if !self.process.is_current() {
            return;
        }
        self.process.env.forget_channel(self.id.index, self.id.generation);
        if let Some(connection) = self.connection.upgrade() {
            let request = Request::CloseChannel(self.id);
            let lock = || connection.lock().unwrap_or_else(PoisonError::into_inner);
            // A daemon that has gone has nothing to free.
            put_off(|| lock().send(&request.encode(), &[])).ok();
        }
    }
}

impl Channel {
    /// One completion event; `EIO` if the device has been removed (`ib_uverbs_event_read`) or the daemon is
    /// gone.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> Result<Outcome> {
        let live = &self.process.arena.channels[self.id.index as usize].live;
        let is_there = live.load(Acquire) == self.id.generation;
        ensure(is_there, Errno::EIO.because(Refusal::DeviceRemoved))?;
        let buffer = buffer.get_mut(..size_of::<CompEventDesc>()).ok_or(Errno::EINVAL)?;
        let is_recorded = self.process.env.recorder.is_on();
        if is_recorded {
            acknowledged::asks();
        }
        let mut queues = self.queues();
        let _reading = Reading::begin(&self.process.arena.channels[self.id.index as usize].reads);
        while system::take_token(self.tokens.as_raw_fd()) {
            // A token without an event belonged to a queue that has been destroyed meanwhile.
            if let Some(cq) = self.next_event(&mut queues) {
                if is_recorded {
                    acknowledged::taken_of(&cq);
                }
                sanitizer::takes_event(self.process, cq.index());
                let cq_handle = cq.user_handle;
                buffer.copy_from_slice(CompEventDesc { cq_handle }.as_bytes());
                return Ok(Outcome::Done(buffer.len()));
            }
        }
        if system::has_hung_up(&self.line) { Err(daemon::gone()) } else { Ok(Outcome::Wait) }
    }

    fn queues(&self) -> MutexGuard<'_, Vec<Arc<CqInfo>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_event(&self, queues: &mut [Arc<CqInfo>]) -> Option<Arc<CqInfo>> {
        for i in 0..queues.len() {
            if !queues[i].is_live(&self.process.arena) {
                continue;
            }
            let cq = &self.process.arena.cqs[queues[i].index() as usize];
            let one_less = |pending: u32| pending.checked_sub(1);
            if cq.pending_events.fetch_update(AcqRel, Acquire, one_less).is_ok() {
                queues[i].events_read.fetch_add(1, AcqRel);
                strict::owe(&self.process.arena, queues[i].index());
                let queue = Arc::clone(&queues[i]);
                // All queues get their turn.
                queues.rotate_left(i + 1);
                return Some(queue);
            }
        }
        None
    }

    /// A queue reports here.
    pub(crate) fn add(&self, queue: Arc<CqInfo>) {
        self.queues().push(queue);
    }

    /// A queue is gone.
    pub(crate) fn forget(&self, index: u32) {
        self.queues().retain(|queue| queue.index() != index);
    }
}
