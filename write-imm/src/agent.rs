//! The server's half of the ping-pong: it reads the client's data, and writes them back.

use common::errln;
use common::memory::copied;
use common::utilities::{OurResult, Reported};
use rdma_sys::{ibv_send_flags, ibv_wc_opcode};

use crate::process_completions::our_await_completion;
use crate::prototypes::{
    OUR_MAX_BUFFER_INFOS, OurBufferInfo, OurControl, OurOptions, VERBOSE_TRACING,
};
use crate::send_recv::{our_post_recv, our_post_send};
use crate::utilities::{
    our_get_current_time, our_get_current_usage, our_print_statistics, our_report_string,
    our_report_ulong,
};

/// Reads data from one buffer of the client's and writes them to another. When called, the receive
/// for the remote buffer info has already been posted.
///
/// Posts a receive for the client's first ack, waits for its buffer info, which goes into the RDMA
/// work requests, and sends ours. The loop waits for a completion. After an ack it posts the next
/// receive, and by one call the read and the write behind it; after a write it only counts. Any
/// error ends it, "flushed" included, which means that the client has disconnected.
pub fn our_agent_operation(agent_conn: &mut OurControl, options: &OurOptions) -> OurResult {
    // this counts up to limit
    agent_conn.wc_rdma_both = 0;

    // post a receive to catch the remote client's first ack
    our_post_recv(agent_conn, &agent_conn.recv_ack_work_request, options)?;

    // number of bytes of remote buffer info we are expecting
    let expected_size = OUR_MAX_BUFFER_INFOS * OurBufferInfo::LEN;

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

    // use remote client's buffer info to fill in the rdma part of our RDMA_READ and RDMA_WRITE work
    // requests: one points to the remote client's ping buffer, the other to its pong buffer
    for (i, work_request) in agent_conn.user_data_send_work_request[..2].iter().enumerate() {
        let remote_buffer_info = agent_conn.remote_buffer_info[i].get();
        let mut wr = copied(work_request);
        wr.wr.rdma.remote_addr = remote_buffer_info.addr();
        wr.wr.rdma.rkey = remote_buffer_info.rkey();
        work_request.set(wr);
    }

    // turn off the SIGNALED flag on RDMA_READ, so that it does NOT generate a completion, and link
    // the RDMA_WRITE to it
    let [read, write] = [0, 1].map(|i| &agent_conn.user_data_send_work_request[i]);
    let mut wr = copied(read);
    wr.send_flags &= !ibv_send_flags::IBV_SEND_SIGNALED.0;
    wr.next = write.as_ptr();
    read.set(wr);

    // turn on the FENCE flag on RDMA_WRITE, so that it starts only when the RDMA_READ before it has
    // completed: it sends what that one brings
    let mut wr = copied(write);
    wr.send_flags |= ibv_send_flags::IBV_SEND_FENCE.0;
    write.set(wr);

    // now we send our local buffer info to the remote client
    our_post_send(agent_conn, &agent_conn.local_buffer_info_work_request, options)?;

    // do NOT wait for it to complete: the client's first ack may do so before

    // mark the time we start waiting for user data from client
    agent_conn.start_time = our_get_current_time();
    agent_conn.start_usage = our_get_current_usage();

    let ret = (|| loop {
        // wait for next work completion
        // if we hit an error or FLUSH_ERR, leave now
        let work_completion = our_await_completion(agent_conn, options)?;

        match work_completion.opcode {
            ibv_wc_opcode::IBV_WC_RECV => {
                // the ack says which ping can be read now
                let ping = agent_conn.recv_ack[0].get().ack_count();
                if options.flags & VERBOSE_TRACING != 0 {
                    errln!("{}: {ping} recv ACK completed ok", options.message);
                }

                // repost our receive to catch the client's next ack
                our_post_recv(agent_conn, &agent_conn.recv_ack_work_request, options)?;

                // the immediate data say which pong it is; nobody converts them on their way, so
                // we put them into network byte order
                let work_request = &agent_conn.user_data_send_work_request[1];
                let mut wr = copied(work_request);
                wr.imm_data_invalidated_rkey_union.imm_data = ping.to_be();
                work_request.set(wr);

                // now we send our RDMA_READ to the remote client, and the RDMA_WRITE linked to it
                our_post_send(agent_conn, &agent_conn.user_data_send_work_request[0], options)?;
            }

            ibv_wc_opcode::IBV_WC_RDMA_WRITE => {
                agent_conn.wc_rdma_both += 1;
                if options.flags & VERBOSE_TRACING != 0 {
                    let wc_rdma_both = agent_conn.wc_rdma_both;
                    errln!("{}: {wc_rdma_both} send RDMA_WRITE completed ok", options.message);
                }
                if agent_conn.wc_rdma_both >= options.limit {
                    return Ok(());
                }
            }

            // our local buffer info
            ibv_wc_opcode::IBV_WC_SEND => {}

            opcode => {
                our_report_ulong(
                    "ibv_poll_cq",
                    "bad work completion opcode",
                    opcode.into(),
                    options,
                );
                return Err(Reported);
            }
        }
    })();

    our_print_statistics(agent_conn, options);
    ret
}
