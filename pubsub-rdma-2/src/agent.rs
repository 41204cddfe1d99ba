//! The server's half, the publisher: it writes new data to the client's buffer now and then.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::errln;
use common::memory::{c_text, copied};
use common::utilities::{OurResult, Reported};

use crate::process_completions::our_await_completion;
use crate::prototypes::{OurAckInfo, OurBufferInfo, OurControl, OurOptions, VERBOSE_TRACING};
use crate::send_recv::{our_post_recv, our_post_send};
use crate::utilities::{
    our_get_current_time, our_get_current_usage, our_print_statistics, our_report_string,
    our_trace_ulong,
};

/// The next number of the C library's generator. C: `random(3)`, which is the same one.
fn random() -> i32 {
    // SAFETY: may be called at any time; the generator has a lock of its own.
    unsafe { libc::rand() }
}

/// Publishes data in the client's buffer. When called, the receive for the remote buffer info has
/// already been posted.
///
/// Waits for the client's buffer info, with which the RDMA work request is completed, and sends
/// ours. Then, `limit` times: makes new data in our buffer, prints them, posts an RDMA write and
/// waits for it to complete, and sleeps for a random time. At last an ack tells the client how
/// often that was, which it cannot know otherwise, and an ack of its own answers.
pub fn our_agent_operation(agent_conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let message = &options.message;
    let data_size = options.data_size as usize;

    our_trace_ulong("agent", "RAND_MAX", libc::RAND_MAX as u64, options);

    // get a "random" seed for the random number generator
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(123456789, |now| now.as_secs());
    // SAFETY: any seed will do.
    unsafe { libc::srand(seed as u32) };

    // this counts up to limit
    agent_conn.wc_rdma_both = 0;

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

    // use client's buffer info to fill in the rdma part of our RDMA_WRITE, to point to the client's
    // single buffer
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

    // mark the time we start sending to client
    agent_conn.start_time = our_get_current_time();
    agent_conn.start_usage = our_get_current_usage();

    let ret = (|| {
        for count in 0..options.limit {
            // fill in the agent's data with a meaningful pattern
            let mut character = (random() & 0x7f) as u8;
            for byte in &agent_conn.user_data[0][..data_size] {
                while !(b' '..=b'~').contains(&character) {
                    character = (random() & 0x7f) as u8;
                }
                byte.set(character);
                character += 1;
            }
            if data_size <= 200 {
                errln!(
                    "{message}: {:5} ({data_size} bytes): {}",
                    count + 1,
                    c_text(&agent_conn.user_data[0])
                );
            }

            // now we send our RDMA_WRITE to the client
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

            // now wait a random amount of time before next publication
            let k = random();
            let secs = (k >> 5) & 0x3; // 0-3 secs
            let nsecs = k % 100000000; // 0-099999999 nsecs
            thread::sleep(Duration::new(secs as u64, nsecs as u32));
            agent_conn.wc_rdma_both += 1;
        }

        // post a receive to catch the remote client's only ack
        our_post_recv(agent_conn, &agent_conn.recv_ack_work_request, options)?;

        // tell the client the number of iterations we finished
        agent_conn.send_ack[0].set(OurAckInfo::new(agent_conn.wc_rdma_both as u32));

        // now we send our only ack to the remote client
        our_post_send(agent_conn, &agent_conn.send_ack_work_request, options)?;

        // wait for the send ack to complete
        if options.flags & VERBOSE_TRACING != 0 {
            our_report_string("waiting completion of", "send ACK", "event IBV_WC_SEND", options);
        }

        our_await_completion(agent_conn, options)?;

        // wait for client's only recv ack to complete
        if options.flags & VERBOSE_TRACING != 0 {
            our_report_string("waiting completion of", "recv ACK", "event IBV_WC_RECV", options);
        }

        // if we hit an error or FLUSH_ERR, leave now
        our_await_completion(agent_conn, options)?;
        Ok(())
    })();

    our_print_statistics(agent_conn, options);
    ret
}
