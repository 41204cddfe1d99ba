//! A receiver whose receives are in a shared receive queue: its limit event asks for more.
#![allow(unsafe_code, reason = "verbs")]

use std::mem::MaybeUninit;
use std::os::raw::c_int;
use std::ptr;

use common::memory::zeroed;
use rdma_sys as sys;

use crate::side::{DEPTH, Result, Side, check};

/// The number of receives that are posted at first.
const POSTED: usize = 8;
/// The limit of the queue: fewer receives than that give an event.
const LIMIT: u32 = 4;
/// The number of messages after which [`POSTED`] receives are below the limit.
pub const BURST: usize = 6;

/// A shared receive queue.
pub struct Shared(*mut sys::ibv_srq);

impl Shared {
    /// A queue that is not created yet.
    pub fn new() -> Self {
        Self(ptr::null_mut())
    }

    /// Creates it, with a queue pair whose receives are in it; null if one cannot be created.
    pub fn create_qp(
        &mut self,
        pd: *mut sys::ibv_pd,
        init: &mut sys::ibv_qp_init_attr,
    ) -> *mut sys::ibv_qp {
        let mut shared: sys::ibv_srq_init_attr = zeroed();
        (shared.attr.max_wr, shared.attr.max_sge) = (DEPTH as u32, 1);
        // SAFETY: the protection domain is alive, and the attributes are read during the call.
        self.0 = unsafe { sys::ibv_create_srq(pd, &mut shared) };
        if self.0.is_null() {
            return ptr::null_mut();
        }
        init.srq = self.0;
        // SAFETY: the protection domain and the objects that the attributes name are alive.
        unsafe { sys::ibv_create_qp(pd, init) }
    }

    fn post(&self, side: &Side, count: usize) -> Result<()> {
        (0..count).try_for_each(|number| {
            let mut sge = side.buffer(number);
            let mut wr: sys::ibv_recv_wr = zeroed();
            (wr.wr_id, wr.sg_list, wr.num_sge) = (number as u64, &raw mut sge, 1);
            let mut bad = ptr::null_mut();
            // SAFETY: the queue is alive, and the request is read during the call.
            let error = unsafe { sys::ibv_post_srq_recv(self.0, &mut wr, &mut bad) };
            check(error == 0, "ibv_post_srq_recv")
        })
    }

    fn set_limit(&self) -> Result<()> {
        let mut attr = sys::ibv_srq_attr { max_wr: 0, max_sge: 0, srq_limit: LIMIT };
        let mask = sys::ibv_srq_attr_mask::IBV_SRQ_LIMIT.0 as c_int;
        // SAFETY: the queue is alive, and the attributes are read during the call.
        check(unsafe { sys::ibv_modify_srq(self.0, &mut attr, mask) } == 0, "ibv_modify_srq")
    }

    /// Receives messages in two bursts. The limit is set again for the second one, or not (wrong).
    pub fn receives(&self, side: &mut Side, is_wrong: bool) -> Result<()> {
        self.post(side, POSTED)?;
        self.set_limit()?;
        side.step()?;
        (0..BURST).try_for_each(|_| side.poll_good())?;
        take_limit(side)?;
        self.post(side, BURST)?;
        if !is_wrong {
            self.set_limit()?;
        }
        side.step()?;
        (0..BURST).try_for_each(|_| side.poll_good())?;
        if is_wrong { Ok(()) } else { take_limit(side) }
    }

    /// Destroys the queue, when its queue pair is gone.
    pub fn destroy(self) -> Result<()> {
        // SAFETY: its only queue pair is gone.
        check(unsafe { sys::ibv_destroy_srq(self.0) } == 0, "ibv_destroy_srq")
    }
}

/// Waits until the limit is reached.
fn take_limit(side: &Side) -> Result<()> {
    let mut event = MaybeUninit::<sys::ibv_async_event>::uninit();
    // SAFETY: the device is open; the call fills the event if it succeeds.
    let error = unsafe { sys::ibv_get_async_event(side.context(), event.as_mut_ptr()) };
    check(error == 0, "ibv_get_async_event")?;
    // SAFETY: filled, as the call has succeeded.
    let mut event = unsafe { event.assume_init() };
    let is_it = event.event_type == sys::ibv_event_type::IBV_EVENT_SRQ_LIMIT_REACHED;
    // SAFETY: the event was taken just now.
    unsafe { sys::ibv_ack_async_event(&mut event) };
    check(is_it, "the event")
}
