//! The client: blasts data into the server's memory.

use std::cell::Cell;
use std::process::ExitCode;

use common::errln;
use common::getopt::args;
use common::memory::{c_text, copied};
use common::print::Pointer;
use common::utilities::{OurResult, Reported, exit_code};
use rdma_sys::ibv_send_wr;

use crate::bind_client::our_client_bind;
use crate::c_d_buffers::{our_setup_client_buffers, our_unsetup_buffers};
use crate::c_d_connect::{our_client_connect, our_disconnect};
use crate::c_d_control_struct::{our_create_control_struct, our_destroy_control_struct};
use crate::c_d_id::{our_create_id, our_destroy_id};
use crate::c_d_queue_pair::{our_setup_qp, our_unsetup_qp};
use crate::process_cm_events::{our_create_cm_event_thread, our_destroy_cm_event_thread};
use crate::process_completions::{our_await_completion, our_get_work_request_list};
use crate::process_options::our_process_options;
use crate::prototypes::{
    Label, OurAckInfo, OurBufferInfo, OurControl, OurOptions, VERBOSE_TRACING,
};
use crate::send_recv::{our_post_recv, our_post_send};
use crate::utilities::{
    our_get_current_time, our_get_current_usage, our_print_statistics, our_report_string,
    our_report_ulong, our_trace_ptr, our_trace_uint64,
};

/// Prints how many work requests each call of `ibv_post_send` has posted.
fn print_ibv_post_send_stats(conn: &OurControl, options: &OurOptions) {
    our_report_ulong("ibv_post_send", "calls", conn.send_stats, options);

    // begin with the last non-zero histogram bin
    let bins = conn.wr_chain_stats.iter().enumerate();
    let mut total = 0;
    let mut weighted_total = 0;
    for (i, &occurrences) in bins.rev().skip_while(|&(_, &occurrences)| occurrences == 0) {
        let buffer = format!("work_request_list_size[{i}]");
        our_report_ulong(&buffer, "occurrences", occurrences, options);
        total += occurrences;
        weighted_total += occurrences * i as u64;
    }

    our_report_ulong("total", "occurrences", total, options);
    our_report_ulong("total", "work requests", weighted_total, options);
}

/// Writes `limit` messages into the agent's buffers.
///
/// First the two sides tell each other where their buffers are, and the RDMA write work requests
/// get what the agent has told. All of them are posted by one call. Then, until `limit` are posted:
/// waits for completions, and posts the work requests that have completed, linked to a list, again.
/// At last, once every write has completed, acks go both ways.
fn our_client_operation(client_conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let message = &options.message;
    let data_size = options.data_size as usize;

    // fill in the client's data with a meaningful pattern
    let pattern = (b' '..=b'~').cycle();
    for (byte, character) in client_conn.user_data[0][..data_size].iter().zip(pattern) {
        byte.set(character);
    }
    if options.flags & VERBOSE_TRACING != 0 && data_size <= 200 {
        errln!(
            "{message}: user_data[0] ({data_size} bytes): {}",
            c_text(&client_conn.user_data[0])
        );
    }

    // this counts up to limit
    client_conn.wc_rdma_write = 0;

    // number of bytes of remote buffer info we are expecting
    let expected_size = client_conn.n_user_data_bufs * OurBufferInfo::LEN;

    // post a receive to catch the remote agent's buffer info
    our_post_recv(client_conn, &client_conn.remote_buffer_info_work_request, options)?;

    // now we send our local buffer info to the remote agent
    our_post_send(client_conn, &client_conn.local_buffer_info_work_request, options)?;

    // wait for the send local buffer info to complete
    if options.flags & VERBOSE_TRACING != 0 {
        our_report_string(
            "waiting completion of",
            "send local buffer info",
            "event IBV_WC_SEND",
            options,
        );
    }

    our_await_completion(client_conn, options)?;

    // wait for the recv remote buffer info to complete
    if options.flags & VERBOSE_TRACING != 0 {
        our_report_string(
            "waiting completion of",
            "recv remote buffer info",
            "event IBV_WC_RECV",
            options,
        );
    }

    let work_completion = our_await_completion(client_conn, options)?;

    if work_completion.byte_len as usize != expected_size {
        errln!("{message}: received {} bytes, expected {expected_size}", work_completion.byte_len);
        return Err(Reported);
    }

    // use remote agent's buffer info to fill in the rdma part of our RDMA_WRITE work requests: each
    // points to one of the remote agent's buffers
    for i in 0..client_conn.n_user_data_bufs {
        let remote_buffer_info = client_conn.remote_buffer_info[i].get();
        let work_request = &client_conn.user_data_send_work_request[i];
        let mut wr = copied(work_request);
        wr.wr.rdma.remote_addr = remote_buffer_info.addr();
        wr.wr.rdma.rkey = remote_buffer_info.rkey();
        work_request.set(wr);
        if options.flags & VERBOSE_TRACING != 0 {
            let addr = remote_buffer_info.addr() as *const ();
            errln!("{message}: remote_buffer_info[{i}] addr {}", Pointer(addr));
            errln!("{message}: remote_buffer_info[{i}] rkey {}", remote_buffer_info.rkey());
        }
    }

    // mark the time we start sending to server
    client_conn.start_time = our_get_current_time();
    client_conn.start_usage = our_get_current_usage();

    let ret = (|| {
        // the first time through, work_request_list contains all work requests
        let mut first = true;
        client_conn.n_posted_buffers = 0;
        while client_conn.n_posted_buffers < options.limit {
            if !first {
                // reload the work_request_list with work completions
                our_get_work_request_list(client_conn, options)?;
            }
            first = false;

            // now we send our RDMA_WRITE list to the remote agent
            let list_size = client_conn.work_request_list.size;
            if options.flags & VERBOSE_TRACING != 0 {
                our_report_ulong("our_post_send", "work_request_list_size", list_size, options);
            }
            let work_request = client_conn.work_request_list.head.cast::<Cell<ibv_send_wr>>();
            // SAFETY: at least one write has completed and not all are posted, or it is the first
            // time: the list is not empty, and this is an element of `user_data_send_work_request`.
            our_post_send(client_conn, unsafe { &*work_request }, options)?;

            // keep statistics on the effects of work_request chaining
            match client_conn.wr_chain_stats.get_mut(list_size as usize) {
                Some(occurrences) => {
                    client_conn.send_stats += 1;
                    *occurrences += 1;
                }
                None => our_report_ulong("work_request_list_size", "too big", list_size, options),
            }
            client_conn.n_posted_buffers += list_size;
        }

        our_trace_uint64(
            "our_post_send",
            "n_posted_buffers",
            client_conn.n_posted_buffers,
            options,
        );

        // wait for all posted buffers to complete; if the agent disconnects, they do so as flushed
        while client_conn.wc_rdma_write < client_conn.n_posted_buffers {
            our_get_work_request_list(client_conn, options)?;
        }

        // post a receive to catch the remote agent's only ack
        our_post_recv(client_conn, &client_conn.recv_ack_work_request, options)?;

        // tell the agent the number of iterations we finished
        client_conn.send_ack[0].set(OurAckInfo::new(client_conn.wc_rdma_write as u32));

        // now we send our only ack to the remote agent
        our_post_send(client_conn, &client_conn.send_ack_work_request, options)?;

        // wait for the send ack to complete
        if options.flags & VERBOSE_TRACING != 0 {
            our_report_string("waiting completion of", "send ACK", "event IBV_WC_SEND", options);
        }

        our_await_completion(client_conn, options)?;

        // wait for agent's only ack to complete
        if options.flags & VERBOSE_TRACING != 0 {
            our_report_string("waiting completion of", "recv ACK", "event IBV_WC_RECV", options);
        }

        // if we hit an error or FLUSH_ERR, leave now
        our_await_completion(client_conn, options)?;
        Ok(())
    })();

    our_print_statistics(client_conn, options);
    print_ibv_post_send_stats(client_conn, options);
    ret
}

/// The client's main program.
pub fn main() -> ExitCode {
    // process the command line options -- don't go on if any errors
    let Ok(options) = our_process_options(&args()) else { return ExitCode::FAILURE };
    let options = &options;

    // allocate our own control structure to keep track of new connection
    let Ok(mut client_conn) = our_create_control_struct(options) else { return ExitCode::FAILURE };
    let conn = &mut *client_conn;

    // what has to be undone, by C's labels
    let mut out = Label::Out2;
    let done = (|| {
        our_create_id(conn, options)?;
        out = Label::Out2a;

        // set up a separate thread to handle cm events
        our_create_cm_event_thread(conn, options)?;
        out = Label::Out3;

        our_client_bind(conn, options)?;

        our_setup_qp(conn, conn.cm_id, options)?;
        out = Label::Out4;

        our_setup_client_buffers(conn, options)?;
        out = Label::Out5;

        our_client_connect(conn, options)?;
        out = Label::Out6;

        our_trace_ptr("Client", "connected our_control", conn, options);

        // the client now blasts data to the server
        our_client_operation(conn, options)
    })();
    if out >= Label::Out6 {
        let _ = our_disconnect(conn, options);
    }
    if out >= Label::Out5 {
        our_unsetup_buffers(conn, options);
    }
    if out >= Label::Out4 {
        our_unsetup_qp(conn, options);
    }
    if out >= Label::Out3 {
        let _ = our_destroy_cm_event_thread(conn, options);
    }
    if out >= Label::Out2a {
        let _ = our_destroy_id(conn, options);
    }
    our_destroy_control_struct(client_conn, options);
    exit_code(done)
}
