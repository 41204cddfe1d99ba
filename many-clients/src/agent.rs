//! The server's half of one connection: it gives access to the counter, and the client does the rest.

use common::errln;
use common::utilities::{OurResult, Reported};

use crate::process_completions::our_await_completion;
use crate::prototypes::{OurBufferInfo, OurControl, OurOptions, VERBOSE_TRACING};
use crate::send_recv::{our_post_recv, our_post_send};
use crate::utilities::{
    our_get_current_time, our_get_current_usage, our_print_statistics, our_report_string,
};

/// Lets the client count in our buffer. When called, the receive for the remote buffer info has
/// already been posted.
///
/// Posts a receive for the client's ack, waits for its buffer info, sends ours. While the client
/// works, nothing happens here: no completion, no loop. Then its ack arrives, with the number of
/// operations it has finished, which cannot be known otherwise; it is answered by an ack of ours.
pub fn our_agent_operation(agent_conn: &mut OurControl, options: &OurOptions) -> OurResult {
    agent_conn.wc_atomic = 0;

    // post a receive to catch the remote client's only ack
    our_post_recv(agent_conn, &agent_conn.recv_ack_work_request, options)?;

    // number of bytes of remote buffer info we are expecting
    let work_request = agent_conn.remote_buffer_info_work_request.get();
    let expected_size = work_request.num_sge as usize * OurBufferInfo::LEN;

    // wait for the recv remote buffer info to complete
    if options.flags & VERBOSE_TRACING != 0 {
        our_report_string(
            "waiting completion of",
            "recv remote buffer info",
            "event IBV_WC_RECV",
            options,
        );
    }

    let work_completion = our_await_completion(agent_conn, options)?;

    if work_completion.byte_len as usize != expected_size {
        errln!(
            "{}: received {} bytes, expected {expected_size}",
            options.message,
            work_completion.byte_len
        );
        return Err(Reported);
    }

    // in this demo the agent has no work requests for data, so that nothing of what the client
    // has told us is needed

    // now we send our local buffer info to the remote client
    our_post_send(agent_conn, &agent_conn.local_buffer_info_work_request, options)?;

    // wait for the send local buffer info to complete
    if options.flags & VERBOSE_TRACING != 0 {
        our_report_string(
            "waiting completion of",
            "send local buffer info",
            "event IBV_WC_SEND",
            options,
        );
    }

    our_await_completion(agent_conn, options)?;

    // mark the time we start waiting for client to finish
    agent_conn.start_time = our_get_current_time();
    agent_conn.start_usage = our_get_current_usage();

    let ret = (|| {
        // wait for client's only recv ack to complete
        if options.flags & VERBOSE_TRACING != 0 {
            our_report_string("waiting completion of", "recv ACK", "event IBV_WC_RECV", options);
        }

        // if we hit an error or FLUSH_ERR, leave now
        our_await_completion(agent_conn, options)?;

        // the ack says how many operations the client finished
        agent_conn.wc_atomic = agent_conn.recv_ack[0].get().ack_count().into();

        // now we send an ack to the remote client
        our_post_send(agent_conn, &agent_conn.send_ack_work_request, options)?;

        // wait for our only send ack to complete
        if options.flags & VERBOSE_TRACING != 0 {
            our_report_string("waiting completion of", "send ACK", "event IBV_WC_SEND", options);
        }

        our_await_completion(agent_conn, options)?;
        Ok(())
    })();

    our_print_statistics(agent_conn, options);
    ret
}
