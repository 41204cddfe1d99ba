//! Protection domain, completion queue and queue pair, created and destroyed.

use std::ptr;

use common::memory::zeroed;
use common::utilities::{OurResult, Reported};
use common::{errln, errno};
use rdma_sys::{
    ibv_alloc_pd, ibv_context, ibv_create_comp_channel, ibv_create_cq, ibv_dealloc_pd,
    ibv_destroy_comp_channel, ibv_destroy_cq, ibv_qp_init_attr, ibv_qp_type, ibv_srq,
    rdma_create_qp, rdma_destroy_qp,
};

use crate::control::{OurControl, failed};

/// The device that the id is bound to. librdmacm does not check that there is one,
/// and crashes.
pub(crate) fn our_device(conn: &OurControl) -> OurResult<*mut ibv_context> {
    // SAFETY: the id is alive; it has a context once its address is resolved.
    let verbs = unsafe { (*conn.cm_id).verbs };
    if verbs.is_null() {
        let message = conn.options.message;
        errln!("{message}: the id has no device before RDMA_CM_EVENT_ADDR_RESOLVED is fetched");
        return Err(Reported);
    }
    Ok(verbs)
}

/// Sets up the queue pair of an id that is bound to a device, and what it stands on.
pub fn our_setup_qp(conn: &mut OurControl) -> OurResult {
    our_setup_cq(conn, our_device(conn)?, 1)?;
    our_create_qp(conn, ibv_qp_type::IBV_QPT_RC, ptr::null_mut())
}

/// Sets up what so many queue pairs stand on: protection domain and completion queue.
pub(crate) fn our_setup_cq(
    conn: &mut OurControl,
    verbs: *mut ibv_context,
    queue_pairs: u32,
) -> OurResult {
    let options = conn.options;
    errno::set(0);
    // SAFETY: the context lives as long as the id.
    conn.protection_domain = unsafe { ibv_alloc_pd(verbs) };
    if conn.protection_domain.is_null() {
        return Err(failed("ibv_alloc_pd", libc::ENOMEM, &options));
    }

    if options.with_channel {
        // SAFETY: as above.
        conn.completion_channel = unsafe { ibv_create_comp_channel(verbs) };
        if conn.completion_channel.is_null() {
            return Err(failed("ibv_create_comp_channel", libc::ENOMEM, &options));
        }
    }

    // room for all that can complete at a time
    let cqe = (queue_pairs * (options.send_queue_depth + options.recv_queue_depth)) as i32;
    // SAFETY: the context is alive, and the channel is, or null.
    conn.completion_queue =
        unsafe { ibv_create_cq(verbs, cqe, ptr::null_mut(), conn.completion_channel, 0) };
    if conn.completion_queue.is_null() {
        return Err(failed("ibv_create_cq", libc::ENOMEM, &options));
    }
    Ok(())
}

/// Attributes of a queue pair on `conn`. It takes its receives from `srq`, or from a queue of its own if that
/// is null.
pub(crate) fn our_init_attr(
    conn: &OurControl,
    qp_type: ibv_qp_type::Type,
    srq: *mut ibv_srq,
) -> ibv_qp_init_attr {
    let options = conn.options;
    let mut init_attr: ibv_qp_init_attr = zeroed();
    init_attr.send_cq = conn.completion_queue;
    init_attr.recv_cq = conn.completion_queue;
    init_attr.cap.max_send_wr = options.send_queue_depth;
    init_attr.cap.max_recv_wr = options.recv_queue_depth;
    init_attr.cap.max_send_sge = options.max_send_sge;
    init_attr.cap.max_recv_sge = options.max_recv_sge;
    init_attr.cap.max_inline_data = options.max_inline_data;
    init_attr.srq = srq;
    init_attr.qp_type = qp_type;
    // only what asks for it gives a completion
    init_attr.sq_sig_all = 0;
    init_attr
}

/// Creates such a queue pair.
pub(crate) fn our_create_qp(
    conn: &mut OurControl,
    qp_type: ibv_qp_type::Type,
    srq: *mut ibv_srq,
) -> OurResult {
    let options = conn.options;
    let mut init_attr = our_init_attr(conn, qp_type, srq);
    errno::set(0);
    // SAFETY: id, protection domain and queues are alive and belong to one device.
    let ret = unsafe { rdma_create_qp(conn.cm_id, conn.protection_domain, &mut init_attr) };
    if ret != 0 {
        return Err(failed("rdma_create_qp", ret, &options));
    }
    // SAFETY: the id is alive.
    conn.queue_pair = unsafe { (*conn.cm_id).qp };
    Ok(())
}

/// Creates the connection's queue pair on what is another one's, and stays that.
pub(crate) fn our_create_qp_on(
    base: &OurControl,
    conn: &mut OurControl,
    srq: *mut ibv_srq,
) -> OurResult {
    conn.protection_domain = base.protection_domain;
    conn.completion_queue = base.completion_queue;
    let created = our_create_qp(conn, ibv_qp_type::IBV_QPT_RC, srq);
    // the shared objects are not the connection's to destroy
    conn.protection_domain = ptr::null_mut();
    conn.completion_queue = ptr::null_mut();
    created
}

/// Undoes [`our_setup_qp`], in the opposite order. Regions have to be deregistered before.
pub fn our_unsetup_qp(conn: &mut OurControl) -> OurResult {
    let options = conn.options;
    if !conn.queue_pair.is_null() {
        // SAFETY: the id is alive and has a queue pair.
        unsafe { rdma_destroy_qp(conn.cm_id) };
        conn.queue_pair = ptr::null_mut();
    }
    if !conn.completion_queue.is_null() {
        // SAFETY: the completion queue is alive, and nothing uses it any more.
        let ret = unsafe { ibv_destroy_cq(conn.completion_queue) };
        if ret != 0 {
            return Err(failed("ibv_destroy_cq", ret, &options));
        }
        conn.completion_queue = ptr::null_mut();
    }
    if !conn.completion_channel.is_null() {
        // SAFETY: the channel is alive, and no queue uses it any more.
        let ret = unsafe { ibv_destroy_comp_channel(conn.completion_channel) };
        if ret != 0 {
            return Err(failed("ibv_destroy_comp_channel", ret, &options));
        }
        conn.completion_channel = ptr::null_mut();
    }
    if !conn.protection_domain.is_null() {
        // SAFETY: the protection domain is alive; as long as anything uses it the call fails.
        let ret = unsafe { ibv_dealloc_pd(conn.protection_domain) };
        if ret != 0 {
            return Err(failed("ibv_dealloc_pd", ret, &options));
        }
        conn.protection_domain = ptr::null_mut();
    }
    Ok(())
}
