//! The client, the subscriber: looks from time to time at what the server has written to its memory.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use common::errln;
use common::getopt::args;
use common::memory::{c_text, load};
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
use crate::prototypes::{Label, OurBufferInfo, OurControl, OurOptions, VERBOSE_TRACING};
use crate::send_recv::{our_post_recv, our_post_send};
use crate::utilities::{
    our_get_current_time, our_get_current_usage, our_print_statistics, our_report_string,
    our_trace_ptr,
};

/// Looks at the data that the agent publishes in our buffer and prints them when they have changed.
///
/// First the two sides tell each other where their buffers are. Then, `limit` times: sleeps, and
/// prints what was there before if what is there now is new. At last acks go both ways.
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

    // in this demo the client has no work requests for data, so that nothing of what the agent
    // has told us is needed

    // post a receive to catch the remote agent's only ack
    our_post_recv(client_conn, &client_conn.recv_ack_work_request, options)?;

    // mark the time we start receiving from server
    client_conn.start_time = our_get_current_time();
    client_conn.start_usage = our_get_current_usage();

    let ret = (|| {
        let mut repeats = 0;
        for count in 0..options.limit {
            // periodically read the agent's published data
            thread::sleep(Duration::new(1, 350000000));

            // make temporary copy of the latest published data
            let latest = &client_conn.user_data[0][..data_size];
            let copy = &client_conn.user_data[1][..data_size];
            for (copy, latest) in copy.iter().zip(latest) {
                copy.set(load(latest));
            }
            // then compare copy with last known published data
            let published = &client_conn.user_data[2][..data_size];
            if published != copy {
                // published data is new, print previous value
                if repeats != 0 {
                    errln!("{message}: {count:5} ({repeats} times): {}", c_text(published));
                }
                // then remember new value
                repeats = 1;
                for (published, copy) in published.iter().zip(copy) {
                    published.set(copy.get());
                }
            } else {
                // published value is unchanged
                repeats += 1;
                if options.flags & VERBOSE_TRACING != 0 {
                    errln!("{message}: {count:5} ({repeats} sofar): {}", c_text(published));
                }
            }
        }

        // print the last published value
        if repeats != 0 {
            let (limit, published) = (options.limit, &client_conn.user_data[1]);
            errln!("{message}: {limit:5} ({repeats} times): {}", c_text(published));
        }

        // wait for agent's only recv ack to complete
        if options.flags & VERBOSE_TRACING != 0 {
            our_report_string("waiting completion of", "recv ACK", "event IBV_WC_RECV", options);
        }

        // if we hit an error or FLUSH_ERR, leave now
        our_await_completion(client_conn, options)?;

        // the ack says how many iterations the agent finished
        client_conn.wc_rdma_both = client_conn.recv_ack[0].get().ack_count().into();

        // now we send an ack to the remote agent
        our_post_send(client_conn, &client_conn.send_ack_work_request, options)?;

        // wait for our only send ack to complete
        if options.flags & VERBOSE_TRACING != 0 {
            our_report_string("waiting completion of", "send ACK", "event IBV_WC_SEND", options);
        }

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
