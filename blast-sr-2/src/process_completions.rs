//! Waits for completions, and keeps lists of linked work requests.

use std::cell::Cell;
use std::ptr;

use common::errno;
use common::utilities::{OurResult, Reported};
use rdma_sys::{ibv_poll_cq, ibv_send_wr, ibv_wc, ibv_wc_status};

use crate::prototypes::{OurControl, OurOptions, OurSendWorkRequestList};
use crate::utilities::{
    our_report_error, our_report_string, our_report_ulong, our_report_wc_status, our_trace_ptr,
    our_trace_ulong,
};

/// Reports a work completion whose status is an error.
pub fn our_check_completion_status(
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
pub fn our_fill_completion_array(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let index = conn.index_work_completions as u64;
    our_trace_ulong("our_fill_completion_array", "index_work_completions", index, options);
    let current = conn.current_n_work_completions as u64;
    our_trace_ulong("our_fill_completion_array", "current_n_work_completions", current, options);
    our_trace_ptr("our_fill_completion_array", "our_control", conn, options);
    // SAFETY: the id is alive.
    let channel = unsafe { (*conn.cm_id).channel };
    our_trace_ptr("our_fill_completion_array", "current cm_id->channel", channel, options);

    // see if any work completions remain in our array
    if conn.index_work_completions < conn.current_n_work_completions {
        // we already have a polled but unprocessed completion
        return Ok(());
    }

    // busy wait for more polled completions to arrive
    let room = conn.max_n_work_completions;
    let polled = loop {
        errno::set(0);
        // SAFETY: the completion queue is alive, and the array has `room` elements.
        let ret = unsafe {
            ibv_poll_cq(conn.completion_queue, room as i32, conn.work_completion.addr().cast())
        };
        let Ok(polled) = usize::try_from(ret) else {
            our_report_error(ret, "ibv_poll_cq", options);
            return Err(Reported);
        };
        if polled > 0 {
            break polled.min(room);
        }
    };

    // got at least 1 completion, maybe more
    conn.current_n_work_completions = polled;
    conn.index_work_completions = 0;
    let current = conn.current_n_work_completions as u64;
    our_trace_ulong("our_fill_completion_array", "current_n_work_completions", current, options);

    // keep statistics on the number of completions obtained
    conn.completion_stats[polled] += 1;
    Ok(())
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

/// Removes the first send work request from a list; `None` if the list is empty.
pub fn our_get_from_work_request_list(
    list: &mut OurSendWorkRequestList,
) -> Option<*mut ibv_send_wr> {
    if list.size == 0 {
        return None;
    }
    let work_request = list.head;
    list.size -= 1;
    if list.size > 0 {
        // SAFETY: the list was not empty, so this is an element of the connection's array.
        list.head = unsafe { (*work_request).next };
        // SAFETY: as above.
        unsafe { (*work_request).next = ptr::null_mut() };
    }
    Some(work_request)
}

/// Prints how many completions each poll has given.
pub fn print_ibv_poll_cq_stats(conn: &OurControl, options: &OurOptions) {
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
        assert_eq!(our_get_from_work_request_list(&mut list), None);
        for request in requests.iter() {
            our_add_to_work_request_list(&mut list, request);
        }
        assert_eq!(list.size, 3);
        // SAFETY: alive, and only this test uses it.
        let next = |i: usize| unsafe { (*requests[i].as_ptr()).next };
        assert_eq!(next(0), requests[1].as_ptr());
        assert_eq!(next(1), requests[2].as_ptr());
        assert!(next(2).is_null());

        // out at the front, on its own; in at the back
        assert_eq!(our_get_from_work_request_list(&mut list), Some(requests[0].as_ptr()));
        assert!(next(0).is_null());
        our_add_to_work_request_list(&mut list, &requests[0]);
        assert_eq!(next(2), requests[0].as_ptr());
        for i in [1, 2, 0] {
            assert_eq!(our_get_from_work_request_list(&mut list), Some(requests[i].as_ptr()));
        }
        assert_eq!(our_get_from_work_request_list(&mut list), None);
    }
}
