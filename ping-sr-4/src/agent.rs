//! The server's half of the ping-pong.

use common::errln;
use common::utilities::{OurResult, Reported};
use rdma_sys::ibv_wc_opcode;

use crate::process_completions::our_await_completion;
use crate::prototypes::{OurControl, OurOptions, VERBOSE_TRACING};
use crate::send_recv::{our_post_recv, our_post_send};
use crate::utilities::{
    our_get_current_time, our_get_current_usage, our_print_statistics, our_report_ulong,
};

/// Plays back what the client sends. When called, the first receive has already been posted.
///
/// The loop waits for a completion. After a receive it posts the next receive and sends the data
/// back; after a send it only counts. Any error ends it, "flushed" included, which means that the
/// client has disconnected.
pub fn our_agent_operation(agent_conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let mut first = true;
    agent_conn.wc_recv = 0;
    agent_conn.wc_send = 0;
    let mut count: u64 = 0;
    let ret = (|| loop {
        // wait for next work completion
        // if we hit an error or FLUSH_ERR, leave now
        let work_completion = our_await_completion(agent_conn, options)?;

        if first {
            // mark the time we start receiving from client
            first = false;
            agent_conn.start_time = our_get_current_time();
            agent_conn.start_usage = our_get_current_usage();
        }
        // see whether it was the send or recv that just completed
        match work_completion.opcode {
            ibv_wc_opcode::IBV_WC_RECV => {
                agent_conn.wc_recv += 1;
                if u64::from(work_completion.byte_len) != options.data_size {
                    errln!(
                        "{}: received {} bytes, expected {}",
                        options.message,
                        work_completion.byte_len,
                        options.data_size
                    );
                }

                if options.flags & VERBOSE_TRACING != 0 {
                    errln!("{}: {count} recv completed ok", options.message);
                }

                // echo back the data we just received

                // repost our receive to catch the client's next send
                let work_request = &agent_conn.user_data_recv_work_request[0];
                our_post_recv(agent_conn, work_request, options)?;

                // post a send to reply back to the client
                let work_request = &agent_conn.user_data_send_work_request[0];
                our_post_send(agent_conn, work_request, options)?;
            }

            ibv_wc_opcode::IBV_WC_SEND => {
                agent_conn.wc_send += 1;
                if options.flags & VERBOSE_TRACING != 0 {
                    errln!("{}: {count} send completed ok", options.message);
                }
                if agent_conn.wc_send >= options.limit {
                    return Ok(());
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
        count += 1;
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
