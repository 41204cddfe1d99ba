//! Buffers of sends whose bytes change between the post and the poll of the completion, which is looked at only if
//! whoever records has asked for it.
//!
//! From the post on an adapter may read the buffer at any time, until the completion of the send, or of a signaled
//! one behind it in its queue, has been polled. So there is a digest of the bytes at the post, and another one
//! when that completion is polled. Before, a message of the peer's may have been polled: if it answers the send, the
//! bytes have been read, and what happens to them then harms nobody. It cannot be told whether it does. So the
//! second digest is made at that time, and none later.
//!
//! Neither inline data, which the post itself reads, nor what reads and atomic operations write to are looked at.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::Acquire;

use soft_hca_core::arena::Mapping;
use soft_hca_core::trace::Recorder;
use soft_hca_core::trace::event::{Changed, SendPosted, TracedSge};
use soft_hca_core::uapi::verbs::{opcode, send_flag};

use crate::client::layout::Wc;
use crate::client::memory;
use crate::client::of_process::OfProcess;
use crate::client::outstanding::{Outstanding, Request};

/// As many bytes of each SGE are looked at.
const LOOKED_AT: usize = 64 << 10;

/// An SGE of a send, as it was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Buffer {
    address: u64,
    length: u32,
    digest: u64,
}

/// A send of which no polled completion says that it is done.
type Send = Request<Vec<Buffer>>;

/// Sends by queue pair.
#[derive(Debug, Default)]
struct Sends {
    /// The recording that they are of.
    recording: u32,
    queue_pairs: HashMap<u32, Outstanding<Vec<Buffer>>>,
}

fn sends() -> MutexGuard<'static, Sends> {
    static SENDS: OfProcess<Sends> = OfProcess::new();
    SENDS.lock()
}

/// A digest of the bytes at an address; `None` if there is no memory.
fn digest(address: u64, length: u32) -> Option<u64> {
    let bytes = memory::read(address, LOOKED_AT.min(length as usize)).ok()?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    Some(hasher.finish())
}

/// Whether a request of this kind reads its SGEs.
fn reads(kind: u32) -> bool {
    matches!(
        kind,
        opcode::SEND
            | opcode::SEND_WITH_IMM
            | opcode::SEND_WITH_INV
            | opcode::RDMA_WRITE
            | opcode::RDMA_WRITE_WITH_IMM
    )
}

/// A send was posted, with these SGEs, and not executed yet.
pub(super) fn posted(arena: &Mapping, recorder: &Recorder, send: &SendPosted, list: &[TracedSge]) {
    if !recorder.compares_buffers() {
        return;
    }
    let SendPosted { wr_id, qpn, opcode, flags, .. } = *send;
    let signals_all = arena.qp(qpn).is_some_and(|qp| qp.sq_sig_all.load(Acquire) != 0);
    let is_signaled = signals_all || flags & send_flag::SIGNALED != 0;
    let list = if reads(opcode) { list } else { &[] };
    let buffers = list.iter().filter_map(|&TracedSge { address, length, .. }| {
        Some(Buffer { address, length, digest: digest(address, length)? })
    });
    let send = Send { wr_id, is_signaled, what: buffers.collect() };
    sends().post(recorder.recording(), qpn, send);
}

/// The program is about to get these completions. Gives the buffers that were changed until now and should not have
/// been.
pub(super) fn polled(recorder: &Recorder, completions: &[Wc]) -> Vec<Changed> {
    if !recorder.compares_buffers() {
        return Vec::new();
    }
    let ended: Vec<(u32, Send)> = {
        let mut sends = sends();
        sends.begin(recorder.recording());
        completions.iter().flat_map(|completion| sends.complete(completion)).collect()
    };
    ended.iter().flat_map(|(qpn, send)| changed(*qpn, send)).collect()
}

/// A queue pair is reset, or gone: nothing that was posted to it is executed any more.
pub(super) fn forget(qpn: u32) {
    sends().queue_pairs.remove(&qpn);
}

impl Sends {
    /// Forgets what belongs to another recording.
    fn begin(&mut self, recording: u32) {
        if self.recording != recording {
            *self = Self { recording, ..Self::default() };
        }
    }

    fn post(&mut self, recording: u32, qpn: u32, send: Send) {
        self.begin(recording);
        self.queue_pairs.entry(qpn).or_default().post(send);
    }

    /// The sends whose buffers were the adapter's until a completion is polled.
    fn complete(&mut self, completion: &Wc) -> Vec<(u32, Send)> {
        let qpn = completion.qp_num;
        let Some(queue) = self.queue_pairs.get_mut(&qpn) else { return Vec::new() };
        let ended: Vec<Send> = if completion.status != 0 {
            // Its requests are flushed.
            queue.clear();
            Vec::new()
        } else if completion.is_receive() {
            let answered = |send: &mut Send| Send { what: std::mem::take(&mut send.what), ..*send };
            queue.iter_mut().map(answered).collect()
        } else {
            queue.through(completion.wr_id).collect()
        };
        ended.into_iter().map(|send| (qpn, send)).collect()
    }
}

/// The buffers of a send that have other bytes than they had.
fn changed(qpn: u32, send: &Send) -> impl Iterator<Item = Changed> {
    let wr_id = send.wr_id;
    send.what.iter().filter_map(move |&Buffer { address, length, digest: before }| {
        let now = digest(address, length);
        let is_unmapped = u32::from(now.is_none());
        let changed = Changed { wr_id, address, length, qpn, is_unmapped, ..Changed::default() };
        (now != Some(before)).then_some(changed)
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use zerocopy::FromZeros;

    use super::*;

    const QPN: u32 = 17;
    const RECORDING: u32 = 1;

    fn buffer(byte: u8) -> [Cell<u8>; 8] {
        std::array::from_fn(|_| Cell::new(byte))
    }

    /// A queue with these sends of a buffer each.
    fn queue(list: &[(u64, bool, &[Cell<u8>])]) -> Sends {
        let mut sends = Sends::default();
        for &(wr_id, is_signaled, bytes) in list {
            let (address, length) = (bytes.as_ptr().expose_provenance() as u64, bytes.len() as u32);
            let digest = digest(address, length).unwrap();
            let what = vec![Buffer { address, length, digest }];
            sends.post(RECORDING, QPN, Send { wr_id, is_signaled, what });
        }
        sends
    }

    fn completion(wr_id: u64, opcode: u32) -> Wc {
        let mut completion = Wc::new_zeroed();
        (completion.wr_id, completion.opcode, completion.qp_num) = (wr_id, opcode, QPN);
        completion
    }

    fn changed_at(sends: &mut Sends, completion: &Wc) -> Vec<u64> {
        let ended = sends.complete(completion);
        ended.iter().flat_map(|(qpn, send)| changed(*qpn, send)).map(|it| it.wr_id).collect()
    }

    #[test]
    fn a_signaled_send_ends_those_before_it() {
        let bytes = [1, 2, 3].map(buffer);
        let [first, second, third] = &bytes;
        let mut sends = queue(&[(1, false, first), (2, true, second), (3, true, third)]);
        bytes[0][7].set(9);
        bytes[2][0].set(9);
        assert_eq!(changed_at(&mut sends, &completion(2, 0)), [1]);
        assert_eq!(changed_at(&mut sends, &completion(3, 0)), [3]);
        assert_eq!(changed_at(&mut sends, &completion(3, 0)), []);
    }

    #[test]
    fn nothing_is_found_after_an_answer() {
        let bytes = [1, 2].map(buffer);
        let [first, second] = &bytes;
        let mut sends = queue(&[(1, true, first), (2, true, second)]);
        bytes[0][0].set(9);
        assert_eq!(changed_at(&mut sends, &completion(7, Wc::RECV)), [1]);
        bytes[1][0].set(9);
        assert_eq!(changed_at(&mut sends, &completion(1, 0)), []);
        assert_eq!(changed_at(&mut sends, &completion(2, 0)), []);
    }

    #[test]
    fn a_failure_and_another_recording_end_all() {
        let bytes = buffer(1);
        let mut sends = queue(&[(1, true, &bytes)]);
        bytes[0].set(9);
        let mut failed = completion(1, 0);
        failed.status = 5;
        assert_eq!(changed_at(&mut sends, &failed), []);
        assert_eq!(changed_at(&mut sends, &completion(1, 0)), []);
        let mut sends = queue(&[(1, true, &bytes)]);
        sends.begin(RECORDING + 1);
        bytes[0].set(8);
        assert_eq!(changed_at(&mut sends, &completion(1, 0)), []);
    }

    #[test]
    fn memory_that_is_gone_is_no_longer_as_it_was() {
        let send = Send {
            wr_id: 1,
            is_signaled: true,
            what: vec![Buffer { address: 4096, length: 8, digest: 0 }],
        };
        let [changed] = changed(QPN, &send).collect::<Vec<_>>()[..] else { panic!("one buffer") };
        assert_eq!((changed.is_unmapped, changed.qpn, changed.length), (1, QPN, 8));
    }
}
