//! The functions below a layer that stands between ours and the provider's.

use std::sync::atomic::Ordering::Release;

use crate::client::functions::{Functions, NextPoll, PollCq, Post, Slot, StartPoll};

/// The provider's functions, which are the same for all of its contexts, or those of the layer below.
pub(super) struct Below {
    pub poll_cq: Slot<PollCq>,
    pub start_poll: Slot<StartPoll>,
    pub next_poll: Slot<NextPoll>,
    pub post_send: Slot<Post>,
    pub post_recv: Slot<Post>,
    pub post_srq_recv: Slot<Post>,
}

impl Below {
    pub(super) const fn empty() -> Self {
        Self {
            poll_cq: Slot::empty(),
            start_poll: Slot::empty(),
            next_poll: Slot::empty(),
            post_send: Slot::empty(),
            post_recv: Slot::empty(),
            post_srq_recv: Slot::empty(),
        }
    }

    /// Remembers a context's functions, and gives the layer's in their places, as far as there are any.
    pub(super) fn put_before(&self, own: Functions, layer: Functions) -> Functions {
        self.poll_cq.store(Some(own.poll_cq), Release);
        self.post_send.store(own.post_send, Release);
        self.post_recv.store(own.post_recv, Release);
        self.post_srq_recv.store(own.post_srq_recv, Release);
        Functions {
            poll_cq: layer.poll_cq,
            post_send: own.post_send.and(layer.post_send),
            post_recv: own.post_recv.and(layer.post_recv),
            post_srq_recv: own.post_srq_recv.and(layer.post_srq_recv),
        }
    }
}
