//! A shared receive queue: several connections take their receives from it, and complete to one completion
//! queue.
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "shared receive queues are the library's own pointers, as regions are in `memory`"
)]

use std::mem::{self, MaybeUninit};
use std::ptr;

use common::errno;
use common::memory::zeroed;
use common::utilities::OurResult;
use rdma_sys::{
    ibv_ack_async_event, ibv_async_event, ibv_context, ibv_create_srq, ibv_destroy_srq,
    ibv_get_async_event, ibv_post_srq_recv, ibv_recv_wr, ibv_srq, ibv_srq_init_attr,
    rdma_port_space,
};

use crate::connect::{our_accept, our_await_request, our_listen};
use crate::control::{OurControl, OurOptions, failed};
use crate::queue_pair::{our_create_qp_on, our_device, our_setup_cq};

/// Listens until the first of several clients calls. What they will share is there: protection domain and
/// completion queue, but no queue pair. [`our_accept_next`] makes each connection.
pub fn our_shared_server(options: OurOptions) -> OurResult<OurControl> {
    let mut base = OurControl::new(options);
    our_listen(&mut base, rdma_port_space::RDMA_PS_TCP)?;
    our_await_request(&mut base)?;
    let verbs = our_device(&base)?;
    our_setup_cq(&mut base, verbs, 1)?;
    Ok(base)
}

/// Creates a shared receive queue with room for so many receives.
pub fn our_create_srq(base: &OurControl, max_wr: u32) -> OurResult<*mut ibv_srq> {
    let mut init_attr: ibv_srq_init_attr = zeroed();
    init_attr.attr.max_wr = max_wr;
    init_attr.attr.max_sge = base.options.max_recv_sge;
    errno::set(0);
    // SAFETY: the protection domain is alive.
    let srq = unsafe { ibv_create_srq(base.protection_domain, &mut init_attr) };
    if srq.is_null() {
        return Err(failed("ibv_create_srq", libc::ENOMEM, &base.options));
    }
    Ok(srq)
}

/// Destroys a shared receive queue. No queue pair may have it any more.
pub fn our_destroy_srq(base: &OurControl, srq: *mut ibv_srq) -> OurResult {
    // SAFETY: the caller has it from `our_create_srq` and does not use it again.
    let ret = unsafe { ibv_destroy_srq(srq) };
    if ret != 0 { Err(failed("ibv_destroy_srq", ret, &base.options)) } else { Ok(()) }
}

/// Accepts the next client, waiting until it calls, with a queue pair that takes its receives from `srq`.
/// The connection ends before what it shares: [`our_unsetup`](crate::our_unsetup) of it comes first.
pub fn our_accept_next(base: &mut OurControl, srq: *mut ibv_srq) -> OurResult<OurControl> {
    if base.cm_id.is_null() {
        our_await_request(base)?;
    }
    let mut conn = OurControl::new(base.options);
    conn.cm_id = mem::replace(&mut base.cm_id, ptr::null_mut());
    our_create_qp_on(base, &mut conn, srq)?;
    our_accept(&mut conn, &[])?;
    Ok(conn)
}

/// The number of the connection's queue pair, which completions have as `qp_num`.
pub fn our_qp_num(conn: &OurControl) -> u32 {
    // SAFETY: the queue pair is alive.
    unsafe { (*conn.queue_pair).qp_num }
}

/// Posts a receive, and those that its `next` leads to, to a shared receive queue.
pub fn our_post_srq_recv(
    base: &OurControl,
    srq: *mut ibv_srq,
    work_request: &mut ibv_recv_wr,
) -> OurResult {
    let mut bad_wr = ptr::null_mut();
    errno::set(0);
    // SAFETY: the queue is alive; the caller's requests point at elements that are there.
    let ret = unsafe { ibv_post_srq_recv(srq, work_request, &mut bad_wr) };
    if ret != 0 { Err(failed("ibv_post_srq_recv", ret, &base.options)) } else { Ok(()) }
}

/// The device, which is open as long as the completion queue is alive.
fn our_context(base: &OurControl) -> *mut ibv_context {
    // SAFETY: the completion queue is alive.
    unsafe { (*base.completion_queue).context }
}

/// The device's next asynchronous event, one of `ibv_event_type`, if there is one now. It is acknowledged.
pub fn our_poll_async_event(base: &OurControl) -> OurResult<Option<u32>> {
    // SAFETY: the device is open.
    let fd = unsafe { (*our_context(base)).async_fd };
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure is there.
    if unsafe { libc::poll(&mut poll, 1, 0) } <= 0 {
        return Ok(None);
    }
    our_get_async_event(base).map(Some)
}

/// Sleeps until the device has an asynchronous event, one of `ibv_event_type`. It is acknowledged.
pub fn our_get_async_event(base: &OurControl) -> OurResult<u32> {
    let mut event = MaybeUninit::<ibv_async_event>::uninit();
    errno::set(0);
    // SAFETY: the device is open; the library writes the event if it returns 0.
    let ret = unsafe { ibv_get_async_event(our_context(base), event.as_mut_ptr()) };
    if ret != 0 {
        return Err(failed("ibv_get_async_event", ret, &base.options));
    }
    // A newer library may have a type that the enum lacks, so it is read as a number.
    // SAFETY: the library has written the event; the enum is one of C's, of 32 bits.
    let kind = unsafe { (&raw const (*event.as_ptr()).event_type).cast::<u32>().read() };
    // SAFETY: the event was got above and is acknowledged once.
    unsafe { ibv_ack_async_event(event.as_mut_ptr()) };
    Ok(kind)
}
