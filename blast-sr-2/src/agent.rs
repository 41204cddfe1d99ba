//! The server's half of the blast: receives, and acks what it has received.

use common::errln;
use common::memory::copied;
use common::utilities::{OurResult, Reported};
use rdma_sys::{ibv_wc_opcode, ibv_wc_status};

use crate::process_completions::{
    our_add_to_work_request_list, our_check_completion_status, our_fill_completion_array,
    our_get_from_work_request_list,
};
use crate::prototypes::{
    OUR_MAX_ACK_MESSAGES, OurAckInfo, OurControl, OurOptions, OurSendWorkRequestList,
    VERBOSE_TRACING,
};
use crate::send_recv::{our_post_recv, our_post_send};
use crate::utilities::{
    our_get_current_time, our_get_current_usage, our_print_statistics, our_report_ulong,
    our_trace_uint64,
};

/// Takes what the client sends. When called, all receives have already been posted.
///
/// The loop waits for completions and deals with all that have come. After a receive it posts
/// that receive again; after a send, an ack can be sent from that memory again. Then, if enough
/// messages have come since the last ack, it acks them, which gives the client credit for as
/// many. Any error ends it, "flushed" included, which means that the client has disconnected.
pub fn our_agent_operation(agent_conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let mut first = true; // reset on first receive (used to start timing)
    let mut ack_count = 0; // current number of un-acked receives from client

    // threshold for when to send an ack containing value ack_count
    let mut threshold = (options.n_data_buffers / OUR_MAX_ACK_MESSAGES as u64).max(1);

    // put all send_ack_work_requests onto local list
    let mut ack_list = OurSendWorkRequestList::default();
    for work_request in agent_conn.send_ack_work_request.iter() {
        our_add_to_work_request_list(&mut ack_list, work_request);
    }

    // wc_recv counts receives completed; wc_send counts credits given back to client
    agent_conn.wc_recv = 0;
    agent_conn.wc_send = 0;

    let ret = (|| {
        loop {
            // wait for next work completion
            our_fill_completion_array(agent_conn, options)?;

            if first {
                // mark the time we start receiving from client
                first = false;
                agent_conn.start_time = our_get_current_time();
                agent_conn.start_usage = our_get_current_usage();
            }

            // we now have at least 1 unprocessed work completion in the array
            while agent_conn.index_work_completions < agent_conn.current_n_work_completions {
                let index = agent_conn.index_work_completions;
                let work_completion = copied(&agent_conn.work_completion[index]);
                agent_conn.index_work_completions += 1;
                let index = work_completion.wr_id as usize;

                let flushed = work_completion.status == ibv_wc_status::IBV_WC_WR_FLUSH_ERR;
                if flushed && agent_conn.wc_send >= options.limit {
                    // all is received and acked, and the client does not wait for us to leave
                    return Ok(());
                }
                // if we hit an error or FLUSH_ERR, leave now
                our_check_completion_status(agent_conn, &work_completion, options)?;

                // was it a send or recv that just completed?
                match work_completion.opcode {
                    ibv_wc_opcode::IBV_WC_RECV => {
                        // just completed receiving data from client
                        agent_conn.wc_recv += 1;
                        ack_count += 1;
                        if options.flags & VERBOSE_TRACING != 0 {
                            errln!(
                                "{}: {} recv completed ok, ack_count {ack_count}, wr_id {index}",
                                options.message,
                                agent_conn.wc_recv
                            );
                        }
                        if u64::from(work_completion.byte_len) != options.data_size {
                            errln!(
                                "{}: received {} bytes, expected {}",
                                options.message,
                                work_completion.byte_len,
                                options.data_size
                            );
                        }

                        if agent_conn.wc_recv < options.limit {
                            // expecting more data from client, repost recv for its next send
                            let work_request = &agent_conn.user_data_recv_work_request[index];
                            our_post_recv(agent_conn, work_request, options)?;
                        } else {
                            // that was the last one, ack whatever is left
                            threshold = 0;
                        }
                    }

                    ibv_wc_opcode::IBV_WC_SEND => {
                        let acked = agent_conn.send_ack[index].get().ack_count();
                        agent_conn.wc_send += acked;
                        let work_request = &agent_conn.send_ack_work_request[index];
                        our_add_to_work_request_list(&mut ack_list, work_request);
                        if options.flags & VERBOSE_TRACING != 0 {
                            errln!(
                                "{}: {} {acked} acks sent ok, wr_id = {index}",
                                options.message,
                                agent_conn.wc_send
                            );
                        }
                    }

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
            }

            // all current work completions have been processed
            if ack_count >= threshold {
                // we have accumulated enough un-acked receives from client to try to send an ack
                // for them all now
                if let Some(work_request) = our_get_from_work_request_list(&mut ack_list) {
                    // post a send to ack back to the client
                    // SAFETY: an element of `send_ack_work_request`, like all on this list.
                    let index = unsafe { (*work_request).wr_id } as usize;
                    agent_conn.send_ack[index].set(OurAckInfo::new(ack_count));
                    let work_request = &agent_conn.send_ack_work_request[index];
                    our_post_send(agent_conn, work_request, options)?;
                    our_trace_uint64("our_post_send", "ack_count", ack_count, options);
                    ack_count = 0;
                }
            }

            if agent_conn.wc_send >= options.limit {
                return Ok(());
            }
        }
    })();

    if first {
        // never got the start time due to early error
        errln!(
            "{}: {} recv completions, {} send completions",
            options.message,
            agent_conn.wc_recv,
            agent_conn.wc_send
        );
    } else {
        our_print_statistics(agent_conn, options);
    }

    ret
}
