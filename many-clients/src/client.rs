//! The clients: each counts in the server's memory.

use std::process::ExitCode;
use std::thread;

use common::errln;
use common::getopt::args;
use common::memory::copied;
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
    Label, OurAckInfo, OurBufferInfo, OurControl, OurOptions, VERBOSE_TRACING, VERIFY,
};
use crate::send_recv::{our_post_recv, our_post_send};
use crate::utilities::{
    our_counter, our_get_current_time, our_get_current_usage, our_print_statistics,
    our_report_error, our_report_string, our_report_uint64, our_trace_ptr,
};

/// Posts an atomic work request that adds 1 to the agent's counter, waits for it to complete, and
/// gives what was in the counter before.
fn our_fetch_and_add(client_conn: &mut OurControl, options: &OurOptions) -> OurResult<u64> {
    // now we send our atomic operation to the remote agent
    our_post_send(client_conn, &client_conn.user_data_send_work_request[0], options)?;

    // wait for the atomic operation to complete
    if options.flags & VERBOSE_TRACING != 0 {
        our_report_string(
            "waiting completion of",
            "fetch and add",
            "event IBV_WC_FETCH_ADD",
            options,
        );
    }

    our_await_completion(client_conn, options)?;
    client_conn.wc_atomic += 1;

    // the previous value is a number of this host, whatever the agent's byte order is
    Ok(our_counter(client_conn))
}

/// Adds to the agent's counter, as other clients do at the same time.
///
/// First the two sides tell each other where their buffers are, and the work request gets what the
/// agent has told. Then, `limit` times: adds 1 and learns what the counter was before, which also
/// tells whether others have added since the last time. At last acks go both ways.
fn our_client_operation(client_conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let message = &options.message;

    // this counts up to limit
    client_conn.wc_atomic = 0;

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

    // use remote agent's buffer info to fill in the atomic part of our work request, to point to the
    // counter
    let remote_buffer_info = client_conn.remote_buffer_info[0].get();
    let work_request = &client_conn.user_data_send_work_request[0];
    let mut wr = copied(work_request);
    wr.wr.atomic.remote_addr = remote_buffer_info.addr();
    wr.wr.atomic.rkey = remote_buffer_info.rkey();
    wr.wr.atomic.compare_add = 1;
    work_request.set(wr);

    // mark the time we start sending to server
    client_conn.start_time = our_get_current_time();
    client_conn.start_usage = our_get_current_usage();

    let ret = (|| {
        // the counter if nobody else has added since, and how often somebody has
        let mut expected = 0;
        let mut others = 0;
        for _ in 0..options.limit {
            let fetched = our_fetch_and_add(client_conn, options)?;
            if options.flags & VERBOSE_TRACING != 0 {
                errln!("{message}: {} fetched {fetched}", client_conn.wc_atomic);
            }
            if fetched > expected {
                others += 1;
            }
            if options.flags & VERIFY != 0 {
                // an addition that is lost brings a number for the second time, or a smaller one
                if fetched < expected {
                    errln!("{message}: fetched {fetched} after {expected}, verification failed");
                } else if options.flags & VERBOSE_TRACING != 0 {
                    errln!("{message}: {} verification ok", client_conn.wc_atomic);
                }
            }
            expected = fetched + 1;
        }
        our_report_uint64("client", "others added in between", others, options);

        // post a receive to catch the remote agent's only ack
        our_post_recv(client_conn, &client_conn.recv_ack_work_request, options)?;

        // tell the agent the number of iterations we finished
        client_conn.send_ack[0].set(OurAckInfo::new(client_conn.wc_atomic as u32));

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

/// A client, with a connection of its own.
fn our_client(options: &OurOptions) -> OurResult {
    // allocate our own control structure to keep track of new connection
    let mut client_conn = our_create_control_struct(options)?;
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

        // the client now counts in the server's memory
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
    done
}

/// The main program: starts a thread for each client, and waits until all of them have ended.
pub fn main() -> ExitCode {
    // process the command line options -- don't go on if any errors
    let Ok(options) = our_process_options(&args()) else { return ExitCode::FAILURE };
    let options = &options;

    let mut clients = Vec::new();
    let mut done = Ok(());
    for number in 1..=options.n_clients {
        let client_options = options.numbered(number);
        match thread::Builder::new().spawn(move || our_client(&client_options)) {
            Ok(client) => clients.push(client),
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
                our_report_error(errno, "pthread_create", options);
                done = Err(Reported);
                break;
            }
        }
    }
    for client in clients {
        done = done.and(client.join().unwrap_or(Err(Reported)));
    }
    exit_code(done)
}
