//! The server's half, the publisher: it changes its buffer now and then, and lets the client read it.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::errln;
use common::memory::c_text;
use common::utilities::{OurResult, Reported};

use crate::process_completions::our_await_completion;
use crate::prototypes::{OurBufferInfo, OurControl, OurOptions, VERBOSE_TRACING};
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

/// Publishes data in our buffer and lets the client read them. When called, the receive for the
/// remote buffer info has already been posted.
///
/// Posts a receive for the client's ack, waits for its buffer info, sends ours. Then, `limit`
/// times: writes new data into the buffer, prints them, and sleeps for a random time. Whether and
/// when the client reads is not noticed here. At last its ack arrives, with the number of
/// iterations it has finished, which cannot be known otherwise; it is answered by an ack of ours.
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

            // now wait a random amount of time before next publication
            let k = random();
            let secs = (k >> 5) & 0x3; // 0-3 secs
            let nsecs = k % 100000000; // 0-099999999 nsecs
            thread::sleep(Duration::new(secs as u64, nsecs as u32));
            agent_conn.wc_rdma_both += 1;
        }

        // wait for client's only recv ack to complete
        if options.flags & VERBOSE_TRACING != 0 {
            our_report_string("waiting completion of", "recv ACK", "event IBV_WC_RECV", options);
        }

        // if we hit an error or FLUSH_ERR, leave now
        our_await_completion(agent_conn, options)?;

        // the ack says how many iterations the client finished
        agent_conn.wc_rdma_both = agent_conn.recv_ack[0].get().ack_count().into();

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
