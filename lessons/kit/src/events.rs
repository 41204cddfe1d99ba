//! Sleeping until something completes: the queue is armed, and its channel has an event.

use std::ptr;

use common::errno;
use common::utilities::OurResult;
use rdma_sys::{ibv_ack_cq_events, ibv_get_cq_event, ibv_req_notify_cq};

use crate::control::{OurControl, failed};

/// Arms the completion queue for one event: the next completion makes it, or with `solicited_only` the
/// next one whose sender has set `IBV_SEND_SOLICITED`. What is in the queue already makes none.
pub fn our_req_notify_cq(conn: &OurControl, solicited_only: bool) -> OurResult {
    errno::set(0);
    // SAFETY: the completion queue is alive.
    let ret = unsafe { ibv_req_notify_cq(conn.completion_queue, solicited_only.into()) };
    if ret != 0 { Err(failed("ibv_req_notify_cq", ret, &conn.options)) } else { Ok(()) }
}

/// Sleeps until the completion channel has an event, and takes it. Each has to be acknowledged.
pub fn our_get_cq_event(conn: &OurControl) -> OurResult {
    let (mut queue, mut context) = (ptr::null_mut(), ptr::null_mut());
    errno::set(0);
    // SAFETY: the channel is alive; the library writes queue and context.
    let ret = unsafe { ibv_get_cq_event(conn.completion_channel, &mut queue, &mut context) };
    if ret != 0 { Err(failed("ibv_get_cq_event", ret, &conn.options)) } else { Ok(()) }
}

/// Acknowledges so many events. The completion queue is not destroyed before all are.
pub fn our_ack_cq_events(conn: &OurControl, events: u32) {
    // SAFETY: the completion queue is alive, and so many of its events were got.
    unsafe { ibv_ack_cq_events(conn.completion_queue, events) };
}
