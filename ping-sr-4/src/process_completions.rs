//! Waits for completions.

use std::ptr;

use common::memory::copied;
use common::print::Pointer;
use common::utilities::{OurResult, Reported};
use common::{errln, errno};
use libc::pollfd;
use rdma_sys::{
    ibv_ack_cq_events, ibv_get_cq_event, ibv_poll_cq, ibv_req_notify_cq, ibv_wc, ibv_wc_status,
    rdma_cm_event_type,
};

use crate::process_cm_events::our_try_get_cm_event;
use crate::prototypes::{
    CM_EVENT_FD, COMPLETE_FD, NUM_POLL_FD, OurControl, OurOptions, VERBOSE_TRACING,
};
use crate::utilities::{our_report_error, our_report_string, our_report_ulong, our_trace_ulong};

/// Gets the completion event that is there.
fn our_wait_for_notification(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let mut event_queue = ptr::null_mut();
    let mut event_context = ptr::null_mut();

    // get a completion notification (in this demo, this verb is non-blocking)
    errno::set(0);
    // SAFETY: the channel is alive; the library writes queue and context.
    let ret =
        unsafe { ibv_get_cq_event(conn.completion_channel, &mut event_queue, &mut event_context) };
    if ret != 0 {
        our_report_error(ret, "ibv_get_cq_event", options);
        return Err(Reported);
    }

    // SAFETY: the completion queue is alive, and one of its events was got.
    unsafe { ibv_ack_cq_events(conn.completion_queue, 1) };

    if event_queue != conn.completion_queue {
        errln!(
            "{}, ibv_get_cq_event got notify for completion queue {}, exected queue {}",
            options.message,
            Pointer(event_queue),
            Pointer(conn.completion_queue)
        );
        return Err(Reported);
    }

    if event_context != ptr::from_mut(conn).cast() {
        errln!(
            "{}, ibv_get_cq_event got notify for completion context {}, exected context {}",
            options.message,
            Pointer(event_context),
            Pointer(conn)
        );
        return Err(Reported);
    }

    if conn.disconnected != 0 {
        return Ok(());
    }

    // Request a notification when the next completion arrives. One may arrive between this
    // request and the poll that empties the queue: that poll takes it, and its notification then
    // finds an empty queue. completion_stats[0] counts how often that happens; see the example
    // in ibv_get_cq_event(3).
    errno::set(0);
    // SAFETY: the completion queue is alive.
    let ret = unsafe { ibv_req_notify_cq(conn.completion_queue, 0) };
    if ret != 0 {
        our_report_error(ret, "ibv_req_notify_cq", options);
        return Err(Reported);
    }

    Ok(())
}

/// Reports a work completion whose status is an error.
fn our_check_completion_status(
    _conn: &OurControl,
    work_completion: &ibv_wc,
    options: &OurOptions,
) -> OurResult {
    let ret = work_completion.status;
    if ret == ibv_wc_status::IBV_WC_SUCCESS {
        return Ok(());
    }
    if ret == ibv_wc_status::IBV_WC_WR_FLUSH_ERR {
        our_report_string("ibv_poll_cq", "completion status", "flushed", options);
    } else {
        our_report_ulong("ibv_poll_cq", "completion status", ret.into(), options);
    }
    Err(Reported)
}

/// The next work completion, if its status is good.
pub fn our_await_completion(conn: &mut OurControl, options: &OurOptions) -> OurResult<ibv_wc> {
    // wait for next work completion to appear in completion queue
    while conn.index_work_completions >= conn.current_n_work_completions {
        // already processed all polled completions, wait for more to arrive
        errno::set(0);
        // SAFETY: the array has so many entries.
        let ret = unsafe { libc::poll(conn.poll_fds.as_mut_ptr(), NUM_POLL_FD as _, 500) };
        let Ok(ready) = u64::try_from(ret) else {
            our_report_error(ret, "poll", options);
            return Err(Reported);
        };
        if ready == 0 && conn.disconnected != 0 {
            // poll timed out, and we are no longer connected
            our_report_string("poll", "timed out", "disconnected", options);
            return Err(Reported);
        }
        if options.flags & VERBOSE_TRACING != 0 {
            our_trace_ulong("poll", "ret", ready, options);
        }
        conn.poll_stats += 1;

        let pollfd { fd, revents, .. } = conn.poll_fds[CM_EVENT_FD];
        if revents != 0 {
            // got a wakeup from cm event
            if revents != libc::POLLIN {
                errln!("{}: cm_event fd {fd} revents {revents:#04x}", options.message);
            }
            let disconnected = rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED;
            our_try_get_cm_event(conn, disconnected, "our_await_completion", options)?;
        }

        let pollfd { fd, revents, .. } = conn.poll_fds[COMPLETE_FD];
        if revents != 0 {
            // got a wakeup from completion
            if revents != libc::POLLIN {
                errln!("{}: completion fd {fd} revents {revents:#04x}", options.message);
            }
            our_wait_for_notification(conn, options)?;
            conn.notification_stats += 1;

            // now collect every completion in the queue
            let room = conn.max_n_work_completions;
            errno::set(0);
            // SAFETY: the completion queue is alive, and the array has `room` elements.
            let ret = unsafe {
                ibv_poll_cq(conn.completion_queue, room as i32, conn.work_completion.addr().cast())
            };
            let Ok(polled) = usize::try_from(ret) else {
                our_report_error(ret, "ibv_poll_cq", options);
                return Err(Reported);
            };

            // keep statistics on the number of items returned, which is never more than asked for
            let polled = polled.min(room);
            conn.completion_stats[polled] += 1;
            conn.current_n_work_completions = polled;
            conn.index_work_completions = 0;
        }
    }

    // we have a polled but unprocessed completion
    let work_completion = copied(&conn.work_completion[conn.index_work_completions]);
    conn.index_work_completions += 1;
    our_check_completion_status(conn, &work_completion, options)?;
    Ok(work_completion)
}

/// Prints how many completions each poll has given.
pub fn print_ibv_poll_cq_stats(conn: &OurControl, options: &OurOptions) {
    our_report_ulong("poll", "calls", conn.poll_stats, options);

    // begin with the last non-zero histogram bin
    let bins = conn.completion_stats.iter().enumerate();
    let mut total = 0;
    for (i, &occurrences) in bins.rev().skip_while(|&(_, &occurrences)| occurrences == 0) {
        let buffer = format!("ibv_poll_cq[{i}]");
        our_report_ulong(&buffer, "occurrences", occurrences, options);
        total += occurrences;
    }

    our_report_ulong("total", "occurrences", total, options);
    our_report_ulong("ibv_get_cq_event", "calls", conn.notification_stats, options);
}
