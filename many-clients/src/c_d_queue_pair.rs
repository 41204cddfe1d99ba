//! Creates and destroys the queue pair, and what it stands on: protection domain, completion
//! channel and completion queue.

use std::ptr;

use common::errno;
use common::memory::{CArray, zeroed};
use common::utilities::{OurResult, Reported};
use rdma_sys::{
    ibv_ack_cq_events, ibv_alloc_pd, ibv_atomic_cap, ibv_create_comp_channel, ibv_create_cq,
    ibv_dealloc_pd, ibv_destroy_comp_channel, ibv_destroy_cq, ibv_device_attr, ibv_qp_init_attr,
    ibv_qp_type, ibv_query_device, ibv_req_notify_cq, rdma_cm_id, rdma_create_qp, rdma_destroy_qp,
};

use crate::prototypes::{OurControl, OurOptions};
use crate::utilities::{
    our_calloc, our_report_error, our_report_string, our_report_ulong, our_trace_ptr,
    our_trace_ulong,
};

/// Attributes of the new queue pair.
fn our_setup_qp_params(conn: &mut OurControl, options: &OurOptions) -> ibv_qp_init_attr {
    let mut init_attr: ibv_qp_init_attr = zeroed();

    init_attr.qp_context = ptr::from_mut(conn).cast();
    init_attr.send_cq = conn.completion_queue;
    init_attr.recv_cq = conn.completion_queue;
    init_attr.srq = ptr::null_mut();
    init_attr.cap.max_send_wr = options.send_queue_depth;
    init_attr.cap.max_recv_wr = options.recv_queue_depth;
    init_attr.cap.max_send_sge = options.max_send_sge;
    init_attr.cap.max_recv_sge = options.max_recv_sge;
    init_attr.cap.max_inline_data = 0;
    init_attr.qp_type = ibv_qp_type::IBV_QPT_RC;
    init_attr.sq_sig_all = 0;
    init_attr
}

/// Creates the queue pair. Called only from [`our_setup_qp`].
fn our_create_qp(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    // set up parameters to define properties of the new queue pair
    let mut init_attr = our_setup_qp_params(conn, options);

    // The connection manager also brings the queue pair through its states: on return receives
    // can be posted, and sends once there is a connection.
    errno::set(0);
    // SAFETY: id, protection domain and completion queue are alive and belong to one device.
    let ret = unsafe { rdma_create_qp(conn.cm_id, conn.protection_domain, &mut init_attr) };
    if ret != 0 {
        our_report_error(ret, "rdma_create_qp", options);
        return Err(Reported);
    }
    // SAFETY: the id is alive.
    conn.queue_pair = unsafe { (*conn.cm_id).qp };
    let cap = &init_attr.cap;
    our_trace_ptr("rdma_create_qp", "created queue pair", conn.queue_pair, options);
    our_trace_ulong("rdma_create_qp", "max_send_wr", cap.max_send_wr.into(), options);
    our_trace_ulong("rdma_create_qp", "max_recv_wr", cap.max_recv_wr.into(), options);
    our_trace_ulong("rdma_create_qp", "max_send_sge", cap.max_send_sge.into(), options);
    our_trace_ulong("rdma_create_qp", "max_recv_sge", cap.max_recv_sge.into(), options);
    our_trace_ulong("rdma_create_qp", "max_inline_data", cap.max_inline_data.into(), options);
    Ok(())
}

/// Destroys the queue pair. Called only from [`our_setup_qp`] and [`our_unsetup_qp`].
fn our_destroy_qp(conn: &mut OurControl, options: &OurOptions) {
    // SAFETY: the id is alive and has a queue pair.
    unsafe { rdma_destroy_qp(conn.cm_id) };
    our_trace_ptr("rdma_destroy_qp", "destroyed queue pair", conn.queue_pair, options);
}

/// Creates the completion queue. Called only from [`our_setup_qp`].
fn our_create_cq(conn: &mut OurControl, cm_id: *mut rdma_cm_id, options: &OurOptions) -> OurResult {
    // SAFETY: the id is alive and bound to a device, so it has a context.
    let verbs = unsafe { (*cm_id).verbs };
    // SAFETY: the context lives as long as the id.
    let num_comp_vectors = unsafe { (*verbs).num_comp_vectors };
    our_trace_ulong(
        "our_create_cq",
        "cm_id->verbs->num_comp_vectors",
        num_comp_vectors as u64,
        options,
    );

    errno::set(0);
    let cqe = options.send_queue_depth as i32 * 2;
    let cq_context = ptr::from_mut(conn).cast();
    // SAFETY: context and channel are alive.
    conn.completion_queue =
        unsafe { ibv_create_cq(verbs, cqe, cq_context, conn.completion_channel, 0) };
    if conn.completion_queue.is_null() {
        // when ibv_create_cq() returns NULL, it should set errno
        our_report_error(libc::ENOMEM, "ibv_create_cq", options);
        return Err(Reported);
    }
    // SAFETY: the completion queue was created above.
    let cq = unsafe { &*conn.completion_queue };
    our_trace_ptr("ibv_create_cq", "created completion queue", cq, options);
    our_trace_ulong("ibv_create_cq", "returned cqe", cq.cqe as u64, options);
    our_trace_ptr("ibv_create_cq", "returned completion queue channel", cq.channel, options);

    // allocate an array big enough to never fill up, even if completion queue is full when polled
    let max_n_work_completions = cq.cqe as usize + 1;
    let Ok(work_completion) = our_calloc(max_n_work_completions, "work_completion array") else {
        errno::set(0);
        // SAFETY: the completion queue was created above, and nothing uses it.
        let ret = unsafe { ibv_destroy_cq(conn.completion_queue) };
        if ret != 0 {
            our_report_error(ret, "ibv_destroy_cq", options);
        }
        return Err(Reported);
    };
    conn.work_completion = work_completion;
    conn.max_n_work_completions = max_n_work_completions;
    our_report_ulong(
        "our_create_cq",
        "max_n_work_completions",
        max_n_work_completions as u64,
        options,
    );

    conn.completion_stats = vec![0; max_n_work_completions + 1];

    // initially there are no polled work completions in the array
    conn.current_n_work_completions = 0;
    conn.index_work_completions = 0;
    Ok(())
}

/// Destroys the completion queue. Called only from [`our_setup_qp`] and [`our_unsetup_qp`].
///
/// The library waits here until every completion event is acknowledged, so that there is one
/// acknowledgement for each event that was got.
fn our_destroy_cq(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    conn.completion_stats = Vec::new();
    conn.work_completion = CArray::default();

    // acknowledge all accumulated successful ibv_get_cq_event() calls
    if conn.cq_events_that_need_ack != 0 {
        // SAFETY: the completion queue is alive, and so many of its events were got.
        unsafe { ibv_ack_cq_events(conn.completion_queue, conn.cq_events_that_need_ack) };
    }

    errno::set(0);
    // SAFETY: the completion queue is alive; as long as a queue pair uses it the call fails.
    let ret = unsafe { ibv_destroy_cq(conn.completion_queue) };
    if ret != 0 {
        // fails if any queue pair is still associated with this completion queue
        our_report_error(ret, "ibv_destroy_cq", options);
        return Err(Reported);
    }
    our_trace_ptr("ibv_destroy_cq", "destroyed completion queue", conn.completion_queue, options);
    Ok(())
}

/// Creates the completion channel. Called only from [`our_setup_qp`].
fn our_create_comp_channel(
    conn: &mut OurControl,
    cm_id: *mut rdma_cm_id,
    options: &OurOptions,
) -> OurResult {
    // create a completion channel for this cm_id
    errno::set(0);
    // SAFETY: the id is alive and bound to a device.
    conn.completion_channel = unsafe { ibv_create_comp_channel((*cm_id).verbs) };
    if conn.completion_channel.is_null() {
        our_report_error(libc::ENOMEM, "ibv_create_comp_channel", options);
        return Err(Reported);
    }
    our_trace_ptr(
        "ibv_create_comp_channel",
        "created completion channel",
        conn.completion_channel,
        options,
    );
    // SAFETY: the channel was created above.
    let fd = unsafe { (*conn.completion_channel).fd };
    our_trace_ulong("ibv_create_comp_channel", "assigned fd", fd as u64, options);
    Ok(())
}

/// Destroys the completion channel. Called only from [`our_setup_qp`] and [`our_unsetup_qp`].
fn our_destroy_comp_channel(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    errno::set(0);
    // SAFETY: the channel is alive; as long as a completion queue uses it the call fails.
    let ret = unsafe { ibv_destroy_comp_channel(conn.completion_channel) };
    if ret != 0 {
        // fails if any completion queue is still associated with this channel
        our_report_error(ret, "ibv_destroy_comp_channel", options);
        return Err(Reported);
    }
    our_trace_ptr(
        "ibv_destroy_comp_channel",
        "destroyed completion channel",
        conn.completion_channel,
        options,
    );
    Ok(())
}

/// Allocates the protection domain. Called only from [`our_setup_qp`].
fn our_alloc_pd(conn: &mut OurControl, cm_id: *mut rdma_cm_id, options: &OurOptions) -> OurResult {
    errno::set(0);
    // SAFETY: the id is alive and bound to a device.
    conn.protection_domain = unsafe { ibv_alloc_pd((*cm_id).verbs) };
    if conn.protection_domain.is_null() {
        our_report_error(libc::ENOMEM, "ibv_alloc_pd", options);
        return Err(Reported);
    }
    our_trace_ptr("ibv_alloc_pd", "allocated protection domain", conn.protection_domain, options);
    Ok(())
}

/// Deallocates the protection domain. Called only from [`our_setup_qp`] and [`our_unsetup_qp`].
fn our_dealloc_pd(conn: &mut OurControl, options: &OurOptions) {
    errno::set(0);
    // SAFETY: the protection domain is alive; as long as anything uses it the call fails.
    let ret = unsafe { ibv_dealloc_pd(conn.protection_domain) };
    if ret != 0 {
        our_report_error(ret, "ibv_dealloc_pd", options);
    } else {
        our_trace_ptr(
            "ibv_dealloc_pd",
            "deallocated protection domain",
            conn.protection_domain,
            options,
        );
    }
}

/// Refuses a device that has no atomic operations. Called only from [`our_setup_qp`].
fn our_check_atomic_cap(cm_id: *mut rdma_cm_id, options: &OurOptions) -> OurResult {
    let mut device_attr: ibv_device_attr = zeroed();
    errno::set(0);
    // SAFETY: the id is alive and bound to a device.
    let ret = unsafe { ibv_query_device((*cm_id).verbs, &mut device_attr) };
    if ret != 0 {
        our_report_error(ret, "ibv_query_device", options);
        return Err(Reported);
    }
    let atomic_cap = match device_attr.atomic_cap {
        ibv_atomic_cap::IBV_ATOMIC_NONE => "none",
        ibv_atomic_cap::IBV_ATOMIC_HCA => "HCA",
        ibv_atomic_cap::IBV_ATOMIC_GLOB => "global",
        _ => "unknown",
    };
    our_report_string("ibv_query_device", "atomic_cap", atomic_cap, options);
    if device_attr.atomic_cap == ibv_atomic_cap::IBV_ATOMIC_NONE {
        our_report_string("our_check_atomic_cap", "device", "has no atomic operations", options);
        return Err(Reported);
    }
    Ok(())
}

/// The labels of C's `goto` in [`our_setup_qp`].
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Label {
    Err0,
    Err1,
    Err2,
    Err3,
    Err4,
}

/// Sets up everything that a queue pair needs, and the queue pair.
pub fn our_setup_qp(
    conn: &mut OurControl,
    cm_id: *mut rdma_cm_id,
    options: &OurOptions,
) -> OurResult {
    // what has to be undone, by C's labels
    let mut err = Label::Err0;
    let done = (|| {
        // atomic operations are optional
        our_check_atomic_cap(cm_id, options)?;

        // create a protection domain
        our_alloc_pd(conn, cm_id, options)?;
        err = Label::Err1;

        // create a completion channel for this cm_id
        our_create_comp_channel(conn, cm_id, options)?;
        err = Label::Err2;

        // create a completion queue
        our_create_cq(conn, cm_id, options)?;
        err = Label::Err3;

        // create a queue pair
        our_create_qp(conn, options)?;
        err = Label::Err4;

        // request notification when first completion is queued
        errno::set(0);
        // SAFETY: the completion queue is alive.
        let ret = unsafe { ibv_req_notify_cq(conn.completion_queue, 0) };
        if ret != 0 {
            our_report_error(ret, "ibv_req_notify_cq", options);
            return Err(Reported);
        }
        Ok(())
    })();
    if done.is_ok() {
        // everything worked ok
        return done;
    }
    if err >= Label::Err4 {
        our_destroy_qp(conn, options);
    }
    if err >= Label::Err3 {
        let _ = our_destroy_cq(conn, options);
    }
    if err >= Label::Err2 {
        let _ = our_destroy_comp_channel(conn, options);
    }
    if err >= Label::Err1 {
        our_dealloc_pd(conn, options);
    }
    done
}

/// Undoes [`our_setup_qp`].
pub fn our_unsetup_qp(conn: &mut OurControl, options: &OurOptions) {
    our_destroy_qp(conn, options);
    let _ = our_destroy_cq(conn, options);
    let _ = our_destroy_comp_channel(conn, options);
    our_dealloc_pd(conn, options);
}
