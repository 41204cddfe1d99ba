//! Waits for completions.

use std::cell::Cell;
use std::ptr;

use common::memory::{copied, load};
use common::print::Pointer;
use common::utilities::{OurResult, Reported};
use common::{errln, errno};
use rdma_sys::{
    ibv_ack_cq_events, ibv_get_cq_event, ibv_poll_cq, ibv_req_notify_cq, ibv_wc, ibv_wc_status,
};

use crate::prototypes::{OurControl, OurOptions};
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

/// The next work completion, if its status is good.
pub fn our_await_completion(conn: &mut OurControl, options: &OurOptions) -> OurResult<ibv_wc> {
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
    let work_completion = copied(&conn.work_completion[conn.index_work_completions]);
    conn.index_work_completions += 1;
    our_check_completion_status(conn, &work_completion, options)?;
    Ok(work_completion)
}

/// Busy-waits until the buffer `bptr` is filled: until all of its bytes are non-zero. The remote
/// side writes there, and no completion tells us. It is an error if that side has disconnected.
pub fn our_all_non_zero_completion_match(
    conn: &OurControl,
    bptr: &[Cell<u8>],
    max_spin_count: &mut u64,
    options: &OurOptions,
) -> OurResult {
    let mut spin_count = 0;
    let ret = loop {
        // asked before the buffer is looked at, because what was written first counts
        let disconnected = conn.cm_event_info.lock().disconnected != 0;
        // start at end of buffer and scan backwards; done if all bytes are non-zero
        if bptr.iter().rev().all(|byte| load(byte) != 0) {
            break Ok(());
        }
        // stop everything if remote side disconnected unexpectedly
        if disconnected {
            errno::set(libc::ECONNRESET);
            our_report_error(-1, "completion_match", options);
            break Err(Reported);
        }
        spin_count += 1;
    };
    *max_spin_count = spin_count.max(*max_spin_count);
    ret
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
    use crate::process_options::our_process_options;

    #[test]
    fn written_before_the_disconnect() {
        let argv = ["test", "-a", "127.0.0.1"].map(String::from);
        let options = our_process_options(&argv).expect("a good command line");
        let conn = OurControl::default();
        conn.cm_event_info.lock().disconnected = 1;
        let is_full = |bytes: [u8; 3], spins: &mut u64| {
            our_all_non_zero_completion_match(&conn, &bytes.map(Cell::new), spins, &options).is_ok()
        };

        let mut max_spin_count = 7;
        assert!(is_full(*b"abc", &mut max_spin_count));
        for bytes in [b"\0bc", b"a\0c", b"ab\0"] {
            assert!(!is_full(*bytes, &mut max_spin_count), "{bytes:?}");
        }
        assert_eq!(max_spin_count, 7);
    }
}
