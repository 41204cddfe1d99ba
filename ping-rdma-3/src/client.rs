//! The client: writes to the server's memory, and waits for its data to appear in its own.

use std::process::ExitCode;

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
use crate::process_completions::{our_all_non_zero_completion_match, our_await_completion};
use crate::process_options::our_process_options;
use crate::prototypes::{Label, OurBufferInfo, OurControl, OurOptions, VERBOSE_TRACING, VERIFY};
use crate::send_recv::{our_post_recv, our_post_send};
use crate::utilities::{
    our_get_current_time, our_get_current_usage, our_print_statistics, our_report_string,
    our_report_uint64, our_trace_ptr,
};

/// Writes data to the agent's buffer and waits until they are written back.
///
/// First the two sides tell each other where their buffers are, and the RDMA write work request
/// gets what the agent has told. Then, `limit` times: clears the pong buffer, posts an RDMA write
/// and waits for it to complete, and waits until no byte of the pong buffer is zero. Any error ends
/// the loop, "flushed" included, which means that the agent has disconnected.
fn our_client_operation(client_conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let message = &options.message;
    let data_size = options.data_size as usize;

    // keep track of maximum number of "spins" in busy wait loop
    let mut max_spin_count = 0;

    // fill in the client's data with a meaningful pattern
    let pattern = (b' '..=b'~').cycle();
    for (byte, character) in client_conn.user_data[1][..data_size].iter().zip(pattern) {
        byte.set(character);
    }
    if options.flags & VERBOSE_TRACING != 0 && data_size <= 200 {
        errln!(
            "{message}: user_data[1] ({data_size} bytes): {}",
            c_text(&client_conn.user_data[1])
        );
    }

    // this counts up to limit
    client_conn.wc_rdma_write = 0;

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

    // use remote agent's buffer info to fill in the rdma part of our RDMA_WRITE work request
    let remote_buffer_info = client_conn.remote_buffer_info[0].get();
    let work_request = &client_conn.user_data_send_work_request[0];
    let mut wr = copied(work_request);
    wr.wr.rdma.remote_addr = remote_buffer_info.addr();
    wr.wr.rdma.rkey = remote_buffer_info.rkey();
    work_request.set(wr);

    // mark the time we start sending to server
    client_conn.start_time = our_get_current_time();
    client_conn.start_usage = our_get_current_usage();

    let ret = (|| {
        for _ in 0..options.limit {
            // clear pong buffer
            let pong = &client_conn.user_data[0][..data_size];
            pong.iter().for_each(|byte| byte.set(0));

            // now we send our RDMA_WRITE to the remote agent
            our_post_send(client_conn, &client_conn.user_data_send_work_request[0], options)?;

            // wait for the send RDMA_WRITE to complete
            if options.flags & VERBOSE_TRACING != 0 {
                our_report_string(
                    "waiting completion of",
                    "send RDMA_WRITE",
                    "event IBV_WC_RDMA_WRITE",
                    options,
                );
            }

            our_await_completion(client_conn, options)?;
            client_conn.wc_rdma_write += 1;

            // busy wait until our local buffer gets full pong pattern
            // (i.e., until all bytes in the buffer become non-zero)
            // if remote side disconnected, stop everything
            our_all_non_zero_completion_match(
                client_conn,
                &client_conn.user_data[0][..data_size],
                &mut max_spin_count,
                options,
            )?;

            if options.flags & VERIFY != 0 {
                let ping = &client_conn.user_data[1][..data_size];
                let pong = &client_conn.user_data[0][..data_size];
                let wc_rdma_write = client_conn.wc_rdma_write;
                if ping != pong {
                    errln!("{message}: {wc_rdma_write} ping data {}", c_text(ping));
                    errln!("{message}: {wc_rdma_write} pong data {}", c_text(pong));
                    errln!("{message}: {wc_rdma_write} verification failed");
                } else if options.flags & VERBOSE_TRACING != 0 {
                    errln!("{message}: {wc_rdma_write} verification ok");
                }
            }
        }
        Ok(())
    })();

    our_print_statistics(client_conn, options);
    our_report_uint64("busy wait loop", "max_spin_count", max_spin_count, options);
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

        // the client now ping-pongs data with the server
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
