//! The server's half of the ping-pong: waits for data to appear in its memory, and writes them back.

use common::errln;
use common::memory::copied;
use common::utilities::{OurResult, Reported};

use crate::process_completions::{our_all_non_zero_completion_match, our_await_completion};
use crate::prototypes::{OurBufferInfo, OurControl, OurOptions, VERBOSE_TRACING};
use crate::send_recv::our_post_send;
use crate::utilities::{
    our_get_current_time, our_get_current_usage, our_print_statistics, our_report_string,
    our_report_uint64,
};

/// Writes back what the client writes into our ping buffer. When called, the receive for the remote
/// buffer info has already been posted, and the ping buffer is all zeros.
///
/// Waits for the client's buffer info, which goes into the RDMA write work request, and sends ours.
/// Then, `limit` times: waits until no byte of the ping buffer is zero, copies it to the pong
/// buffer, clears it, and posts an RDMA write and waits for it to complete. Any error ends the
/// loop, "flushed" included, which means that the client has disconnected.
pub fn our_agent_operation(agent_conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let data_size = options.data_size as usize;

    // keep track of maximum number of "spins" in busy wait loop
    let mut max_spin_count = 0;

    // this counts up to limit
    agent_conn.wc_rdma_write = 0;

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

    // use remote client's buffer info to fill in the rdma part of our RDMA_WRITE work request
    let remote_buffer_info = agent_conn.remote_buffer_info[0].get();
    let work_request = &agent_conn.user_data_send_work_request[0];
    let mut wr = copied(work_request);
    wr.wr.rdma.remote_addr = remote_buffer_info.addr();
    wr.wr.rdma.rkey = remote_buffer_info.rkey();
    work_request.set(wr);

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

    // mark the time we start waiting for user data from client
    agent_conn.start_time = our_get_current_time();
    agent_conn.start_usage = our_get_current_usage();

    let ret = (|| {
        for _ in 0..options.limit {
            // busy wait until our local buffer gets full ping pattern
            // (i.e., until all bytes in the buffer become non-zero)
            // if remote side disconnected, stop everything
            our_all_non_zero_completion_match(
                agent_conn,
                &agent_conn.user_data[0][..data_size],
                &mut max_spin_count,
                options,
            )?;

            // copy ping buffer into pong buffer, then clear ping buffer
            let ping = &agent_conn.user_data[0][..data_size];
            let pong = &agent_conn.user_data[1][..data_size];
            pong.iter().zip(ping).for_each(|(pong, ping)| pong.set(ping.get()));
            ping.iter().for_each(|byte| byte.set(0));

            // now we send our RDMA_WRITE to the remote client
            our_post_send(agent_conn, &agent_conn.user_data_send_work_request[0], options)?;

            // wait for the send RDMA_WRITE to complete
            if options.flags & VERBOSE_TRACING != 0 {
                our_report_string(
                    "waiting completion of",
                    "send RDMA_WRITE",
                    "event IBV_WC_RDMA_WRITE",
                    options,
                );
            }

            our_await_completion(agent_conn, options)?;
            agent_conn.wc_rdma_write += 1;
        }
        Ok(())
    })();

    our_print_statistics(agent_conn, options);
    our_report_uint64("busy wait loop", "max_spin_count", max_spin_count, options);
    ret
}
