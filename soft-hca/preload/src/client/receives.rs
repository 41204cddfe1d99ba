//! Receives whose buffer is gone when their completion is polled. Buffers are looked at only if the recording asks for
//! it, as with [`buffers`](super::buffers) of sends.
//!
//! An adapter writes a message to its buffer whenever it comes. The program cannot know that it has come until it polls
//! the completion; so the memory has to be mapped until then, and if it is on the stack, the function that it belongs
//! to must not have returned.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Acquire;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use soft_hca_core::arena::Mapping;
use soft_hca_core::engine::ReceiveQueue;
use soft_hca_core::system::page_bytes;
use soft_hca_core::trace;
use soft_hca_core::trace::event::Changed;

use crate::client::layout::{Sge, Wc};
use crate::client::lists::{self, Listed};
use crate::client::outstanding::{Outstanding, Request};
use crate::client::process::Process;
use crate::client::site::Frame;
use crate::client::{memory, site};

/// A buffer of a receive.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    address: u64,
    length: u32,
    /// The thread that has posted it, and the function whose variable it is, if it is on that thread's stack.
    frame: Option<(u32, Frame)>,
}

/// A posted receive.
type Receive = Request<Vec<Buffer>>;

/// A queue: whether it is a shared one, and its number.
type Queue = (bool, u32);

fn key(queue: ReceiveQueue) -> Queue {
    match queue {
        ReceiveQueue::Own(qpn) => (false, qpn),
        ReceiveQueue::Shared(index) => (true, index),
    }
}

/// Receives by queue.
#[derive(Debug, Default)]
struct Receives {
    /// The recording that they belong to.
    recording: u32,
    queues: HashMap<Queue, Outstanding<Vec<Buffer>>>,
}

fn receives(recording: u32) -> MutexGuard<'static, Receives> {
    static RECEIVES: LazyLock<Mutex<Receives>> = LazyLock::new(Mutex::default);
    let mut receives = RECEIVES.lock().unwrap_or_else(PoisonError::into_inner);
    if receives.recording != recording {
        *receives = Receives { recording, ..Receives::default() };
    }
    receives
}

/// Remembers a list of receives before it is posted. They may have completed before that call returns.
pub(super) fn posts(process: &Process, queue: ReceiveQueue, first: u64) {
    let recorder = &process.env.recorder;
    if !recorder.compares_buffers() {
        return;
    }
    let list: Vec<Receive> = lists::receives(first).map(remembered).collect();
    let mut receives = receives(recorder.recording());
    let known = receives.queues.entry(key(queue)).or_default();
    list.into_iter().for_each(|receive| known.post(receive));
}

/// Forgets a queue's receives, as its content is unknown: some were refused, its queue pair is reset, or it is gone.
pub(super) fn forget(process: &Process, queue: ReceiveQueue) {
    let recorder = &process.env.recorder;
    if recorder.compares_buffers() {
        receives(recorder.recording()).queues.remove(&key(queue));
    }
}

/// Removes the receives of completions that the program is about to get, and returns those buffers that are gone.
pub(super) fn polled(process: &Process, completions: &[Wc]) -> Vec<Changed> {
    let recorder = &process.env.recorder;
    if !recorder.compares_buffers() {
        return Vec::new();
    }
    let done: Vec<(u32, Receive)> = {
        let mut receives = receives(recorder.recording());
        let done = completions.iter().filter(|one| one.status == 0 && one.is_receive());
        let done = done.filter_map(|one| {
            let receive = receives.take(queue_of(&process.arena, one.qp_num), one.wr_id)?;
            Some((one.qp_num, receive))
        });
        done.collect()
    };
    done.iter().flat_map(|(qpn, receive)| gone(*qpn, receive)).collect()
}

/// The queue that the receives of a queue pair are in.
pub(super) fn queue_of(arena: &Mapping, qpn: u32) -> ReceiveQueue {
    let shared = arena.qp(qpn).and_then(|qp| qp.srq.load(Acquire).checked_sub(1));
    shared.map_or(ReceiveQueue::Own(qpn), ReceiveQueue::Shared)
}

impl Receives {
    fn take(&mut self, queue: ReceiveQueue, wr_id: u64) -> Option<Receive> {
        self.queues.get_mut(&key(queue))?.take(wr_id)
    }
}

/// A receive that is about to be posted, as it is remembered.
fn remembered(Listed { wr_id, sges }: Listed) -> Receive {
    let buffers = sges.iter().map(|&Sge { addr: address, length, .. }| {
        let frame = site::frame_of(address as usize).map(|frame| (trace::thread(), frame));
        Buffer { address, length, frame }
    });
    Receive { wr_id, is_signaled: true, what: buffers.collect() }
}

/// The buffers of a receive that are gone.
fn gone(qpn: u32, receive: &Receive) -> impl Iterator<Item = Changed> {
    let wr_id = receive.wr_id;
    receive.what.iter().filter_map(move |buffer| {
        let Buffer { address, length, frame } = *buffer;
        let is_unmapped = u32::from(!is_there(address, length));
        let own = frame.filter(|(thread, _)| *thread == trace::thread());
        let has_returned = u32::from(own.is_some_and(|(_, frame)| frame.has_returned()));
        let changed = Changed { wr_id, address, length, qpn, is_unmapped, has_returned };
        (is_unmapped + has_returned > 0).then_some(changed)
    })
}

/// Whether the first and the last byte of a buffer are mapped; one look is enough if they are on one page.
fn is_there(address: u64, length: u32) -> bool {
    let last = address.saturating_add(u64::from(length) - 1);
    let page = page_bytes() as u64;
    let is_at = |at: u64| memory::read(at, 1).is_ok();
    is_at(address) && (address / page == last / page || is_at(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(wr_id: u64, address: u64) -> Receive {
        let what = vec![Buffer { address, length: 8, frame: None }];
        Receive { wr_id, is_signaled: true, what }
    }

    #[test]
    fn memory_that_is_gone_is_told() {
        let bytes = [0u8; 8];
        assert_eq!(gone(17, &receive(1, bytes.as_ptr() as u64)).count(), 0);
        let gone: Vec<Changed> = gone(17, &receive(1, 4096)).collect();
        let [gone] = gone[..] else { panic!("one buffer") };
        assert_eq!((gone.is_unmapped, gone.has_returned, gone.qpn), (1, 0, 17));
    }

    #[test]
    fn queues_have_their_own_receives() {
        let mut receives = Receives::default();
        let queue = ReceiveQueue::Own(17);
        receives.queues.entry(key(queue)).or_default().post(receive(2, 16));
        assert!(receives.take(ReceiveQueue::Shared(17), 2).is_none());
        assert_eq!(receives.take(queue, 2).unwrap().what[0].address, 16);
    }
}
