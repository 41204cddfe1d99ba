//! Waits for completions, and keeps the list of work requests that can be posted again.

use std::cell::Cell;
use std::ptr;

use common::memory::copied;
use common::print::Pointer;
use common::utilities::{OurResult, Reported};
use common::{errln, errno};
use rdma_sys::{
    ibv_ack_cq_events, ibv_get_cq_event, ibv_poll_cq, ibv_req_notify_cq, ibv_send_wr, ibv_wc,
    ibv_wc_opcode, ibv_wc_status,
};

use crate::prototypes::{OurControl, OurOptions, OurSendWorkRequestList};
use crate::utilities::{
    our_report_error, our_report_string, our_report_ulong, our_report_wc_status,
};

/// Waits for a completion event.
fn our_wait_for_notification(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let mut event_queue = ptr::null_mut();
    let mut event_context = ptr::null_mut();

    // wait for a completion notification (this verb blocks)
    errno::set(0);
    // SAFETY: the channel is alive; the library writes queue and context.
    let ret =
        unsafe { ibv_get_cq_event(conn.completion_channel, &mut event_queue, &mut event_context) };
    if ret != 0 {
        our_report_error(ret, "ibv_get_cq_event", options);
        return Err(Reported);
    }

    conn.cq_events_that_need_ack += 1;
    if conn.cq_events_that_need_ack == u32::MAX {
        // SAFETY: the completion queue is alive, and so many of its events were got.
        unsafe { ibv_ack_cq_events(conn.completion_queue, u32::MAX) };
        conn.cq_events_that_need_ack = 0;
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

    Ok(())
}

/// Reports a work completion whose status is an error.
fn our_check_completion_status(
    conn: &OurControl,
    work_completion: &ibv_wc,
    options: &OurOptions,
) -> OurResult {
    let ret = work_completion.status;
    if ret == ibv_wc_status::IBV_WC_SUCCESS {
        return Ok(());
    }
    if ret == ibv_wc_status::IBV_WC_WR_FLUSH_ERR {
        let mut cm_event_info = conn.cm_event_info.lock();
        if cm_event_info.disconnected == 0 {
            // flush provoked remotely, no need to call rdma_disconnect() locally
            cm_event_info.disconnected = 3;
        }
        drop(cm_event_info);
        our_report_string("ibv_poll_cq", "completion status", "flushed", options);
    } else if !our_report_wc_status(ret as i32, "ibv_poll_cq", options) {
        our_report_ulong("ibv_poll_cq", "completion status", ret.into(), options);
    }
    Err(Reported)
}

/// Returns with at least one unprocessed work completion in the array.
fn our_fill_completion_array(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    // wait for next work completion to appear in completion queue
    while conn.index_work_completions >= conn.current_n_work_completions {
        // already processed all polled completions, wait for notification of more arrivals
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

        // keep statistics on the number of items returned
        if polled > room {
            our_report_ulong("WARNING: ibv_poll_cq", "returned", polled as u64, options);
            our_report_ulong("WARNING: but", "max_n_work_completions", room as u64, options);
        } else {
            conn.completion_stats[polled] += 1;
        }
        conn.current_n_work_completions = polled.min(room);
        conn.index_work_completions = 0;
    }

    // we have a polled but unprocessed completion
    Ok(())
}

/// The next work completion, if its status is good.
pub fn our_await_completion(conn: &mut OurControl, options: &OurOptions) -> OurResult<ibv_wc> {
    // see if already processed all polled completions, wait for more
    our_fill_completion_array(conn, options)?;

    // we now have at least 1 unused work completion in our array
    let work_completion = copied(&conn.work_completion[conn.index_work_completions]);
    conn.index_work_completions += 1;
    our_check_completion_status(conn, &work_completion, options)?;
    Ok(work_completion)
}

/// Adds a send work request to the end of a list.
pub fn our_add_to_work_request_list(
    list: &mut OurSendWorkRequestList,
    work_request: &Cell<ibv_send_wr>,
) {
    let work_request = work_request.as_ptr();
    if list.size == 0 {
        // first item being added to empty list
        list.head = work_request;
    } else {
        // SAFETY: the list is not empty, so this is an element of the connection's array.
        unsafe { (*list.tail).next = work_request };
    }
    list.tail = work_request;
    // SAFETY: the cell is borrowed, and nobody else accesses it now.
    unsafe { (*work_request).next = ptr::null_mut() };
    list.size += 1;
}

/// Makes a new list of the work requests that have completed, at least one, as far as there is
/// still something to be posted. Called only while nothing but RDMA writes is on its way.
pub fn our_get_work_request_list(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    // start off with empty list
    conn.work_request_list = OurSendWorkRequestList::default();

    // see if already processed all polled completions, wait for more
    our_fill_completion_array(conn, options)?;

    // we now have at least 1 unused work completion in our array
    // form a list of all corresponding work requests
    while conn.index_work_completions < conn.current_n_work_completions {
        let work_completion = copied(&conn.work_completion[conn.index_work_completions]);
        conn.index_work_completions += 1;
        our_check_completion_status(conn, &work_completion, options)?;
        if work_completion.opcode & ibv_wc_opcode::IBV_WC_RECV != 0 {
            errln!("{}: unexpected IBV_WC_RECV", options.message);
            return Err(Reported);
        }

        // count this completed RDMA_WRITE
        conn.wc_rdma_write += 1;

        // see if we need to post this work request again
        if conn.n_posted_buffers + conn.work_request_list.size < options.limit {
            // point at work request that generated this completion
            let work_request = work_completion.wr_id as *const Cell<ibv_send_wr>;
            // SAFETY: the id of a write is the address of its work request, which is an element
            // of `user_data_send_work_request`.
            let work_request = unsafe { &*work_request };

            // add this send work request to end of linked list
            our_add_to_work_request_list(&mut conn.work_request_list, work_request);
        }
    }
    Ok(())
}

/// Prints how many completions each poll has given.
pub fn print_ibv_poll_cq_stats(conn: &OurControl, options: &OurOptions) {
    our_report_ulong("ibv_get_cq_event", "calls", conn.notification_stats, options);

    // begin with the last non-zero histogram bin
    let bins = conn.completion_stats.iter().enumerate();
    let mut total = 0;
    let mut weighted_total = 0;
    for (i, &occurrences) in bins.rev().skip_while(|&(_, &occurrences)| occurrences == 0) {
        let buffer = format!("work_completion_array_size[{i}]");
        our_report_ulong(&buffer, "occurrences", occurrences, options);
        total += occurrences;
        weighted_total += occurrences * i as u64;
    }

    our_report_ulong("total", "occurrences", total, options);
    our_report_ulong("total", "work completions", weighted_total, options);
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::memory::CArray;

    #[test]
    fn a_list_is_linked_in_order() {
        let requests = CArray::<ibv_send_wr>::calloc(3).unwrap();
        let mut list = OurSendWorkRequestList::default();
        for i in [2, 0, 1] {
            our_add_to_work_request_list(&mut list, &requests[i]);
        }
        assert_eq!((list.head, list.tail), (requests[2].as_ptr(), requests[1].as_ptr()));
        assert_eq!(list.size, 3);
        // SAFETY: alive, and only this test uses it.
        let next = |i: usize| unsafe { (*requests[i].as_ptr()).next };
        assert_eq!(next(2), requests[0].as_ptr());
        assert_eq!(next(0), requests[1].as_ptr());
        assert!(next(1).is_null());

        // a request that was in the midst of an old list ends a new one
        list = OurSendWorkRequestList::default();
        our_add_to_work_request_list(&mut list, &requests[0]);
        assert_eq!((list.head, list.tail), (requests[0].as_ptr(), requests[0].as_ptr()));
        assert!(next(0).is_null());
    }
}
