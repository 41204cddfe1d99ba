//! The client, the subscriber: reads from time to time what the server has published.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use common::errln;
use common::getopt::args;
use common::memory::{c_text, copied};
use common::utilities::{OurResult, Reported, exit_code};

use crate::bind_client::our_client_bind;
use crate::c_d_buffers::{our_setup_client_buffers, our_unsetup_buffers};
use crate::c_d_connect::{our_client_connect, our_disconnect};
use crate::c_d_control_struct::{our_create_control_struct, our_destroy_control_struct};
use crate::c_d_id::{our_create_id, our_destroy_id};
use crate::c_d_queue_pair::{our_setup_qp, our_unsetup_qp};
use crate::process_cm_events::{our_create_cm_event_thread, our_destroy_cm_event_thread};
use crate::process_completions::our_await_completion;
use crate::process_options::our_process_options;
use crate::prototypes::{
    Label, OurAckInfo, OurBufferInfo, OurControl, OurOptions, VERBOSE_TRACING,
};
use crate::send_recv::{our_post_recv, our_post_send};
use crate::utilities::{
    our_get_current_time, our_get_current_usage, our_print_statistics, our_report_string,
    our_trace_ptr,
};

/// Reads the agent's published data and prints them when they have changed.
///
/// First the two sides tell each other where their buffers are, and the RDMA work request gets
/// what the agent has told. Then, `limit` times: sleeps, posts an RDMA read and waits for it to
/// complete, and prints what was there before if that is new. At last acks go both ways.
fn our_client_operation(client_conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let message = &options.message;
    let data_size = options.data_size as usize;

    // this counts up to limit
    client_conn.wc_rdma_both = 0;

    // number of bytes of remote buffer info we are expecting
    let work_request = client_conn.remote_buffer_info_work_request.get();
    let expected_size = work_request.num_sge as usize * OurBufferInfo::LEN;

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

    // use remote agent's buffer info to fill in the rdma part of our RDMA_READ, to point to the
    // remote agent's single buffer
    let remote_buffer_info = client_conn.remote_buffer_info[0].get();
    let work_request = &client_conn.user_data_send_work_request[0];
    let mut wr = copied(work_request);
    wr.wr.rdma.remote_addr = remote_buffer_info.addr();
    wr.wr.rdma.rkey = remote_buffer_info.rkey();
    work_request.set(wr);

    // mark the time we start receiving from server
    client_conn.start_time = our_get_current_time();
    client_conn.start_usage = our_get_current_usage();

    let ret = (|| {
        let mut repeats = 0;
        for count in 0..options.limit {
            // periodically read the agent's published data
            thread::sleep(Duration::new(1, 350000000));

            // now do RDMA_READ to get latest data from remote agent
            our_post_send(client_conn, &client_conn.user_data_send_work_request[0], options)?;

            // wait for the RDMA_READ to complete
            if options.flags & VERBOSE_TRACING != 0 {
                our_report_string(
                    "waiting completion of",
                    "send RDMA_READ",
                    "event IBV_WC_RDMA_READ",
                    options,
                );
            }

            our_await_completion(client_conn, options)?;

            // compare received data with last known published data
            let received = &client_conn.user_data[0][..data_size];
            let published = &client_conn.user_data[1][..data_size];
            if published != received {
                // received data is new, print previous value
                if repeats != 0 {
                    errln!("{message}: {count:5} ({repeats} times): {}", c_text(published));
                }
                // then remember new value
                repeats = 1;
                for (published, received) in published.iter().zip(received) {
                    published.set(received.get());
                }
            } else {
                // published value is unchanged
                repeats += 1;
                if options.flags & VERBOSE_TRACING != 0 {
                    errln!("{message}: {count:5} ({repeats} sofar): {}", c_text(published));
                }
            }
            client_conn.wc_rdma_both += 1;
        }

        // print the last published value
        if repeats != 0 {
            let (limit, published) = (options.limit, &client_conn.user_data[1]);
            errln!("{message}: {limit:5} ({repeats} times): {}", c_text(published));
        }

        // post a receive to catch the remote agent's only ack
        our_post_recv(client_conn, &client_conn.recv_ack_work_request, options)?;

        // tell the agent the number of iterations we finished
        client_conn.send_ack[0].set(OurAckInfo::new(client_conn.wc_rdma_both as u32));

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

        // the client now subscribes to data published by the server
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
