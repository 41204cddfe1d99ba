//! The client: lets the server read its data, and is told when they are written back.

use std::process::ExitCode;

use common::errln;
use common::getopt::args;
use common::memory::c_text;
use common::utilities::{OurResult, Reported, exit_code};
use rdma_sys::{ibv_wc, ibv_wc_opcode};

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
    our_get_current_time, our_get_current_usage, our_print_statistics, our_report_string,
    our_report_ulong, our_trace_ptr,
};

/// The immediate data of a completion that has some, as a number of this host.
fn our_imm_data(work_completion: &ibv_wc) -> u32 {
    // SAFETY: a completion of this opcode has immediate data; either member is a number.
    u32::from_be(unsafe { work_completion.imm_data_invalidated_rkey_union.imm_data })
}

/// Makes the next ping, and tells the agent that it is there.
fn our_send_ping(client_conn: &OurControl, options: &OurOptions) -> OurResult {
    let message = &options.message;
    let data_size = options.data_size as usize;

    // number of the ping we are about to make
    let ping = client_conn.wc_rdma_both + 1;

    // fill in the client's data with a meaningful pattern, which begins with the next character
    // each time
    let pattern = (b' '..=b'~').cycle().skip((ping as usize - 1) % 95);
    for (byte, character) in client_conn.user_data[0][..data_size].iter().zip(pattern) {
        byte.set(character);
    }
    if options.flags & VERBOSE_TRACING != 0 && data_size <= 200 {
        errln!(
            "{message}: user_data[0] ({data_size} bytes): {}",
            c_text(&client_conn.user_data[0])
        );
    }

    // post a receive, because an RDMA_WRITE with immediate data uses one up
    our_post_recv(client_conn, &client_conn.recv_imm_work_request, options)?;

    // tell the agent which ping it is; the send before may not have completed yet, but it was
    // inline: this memory has been ours again since the call returned
    client_conn.send_ack[0].set(OurAckInfo::new(ping as u32));
    our_post_send(client_conn, &client_conn.send_ack_work_request, options)
}

/// Lets the agent read data from one buffer and write them to another.
///
/// First the two sides tell each other where their buffers are. Then, `limit` times: makes a ping,
/// tells the agent, and waits for the immediate data that come with the pong. Any error ends the
/// loop, "flushed" included, which means that the agent has disconnected.
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

    // mark the time we start sending to server
    client_conn.start_time = our_get_current_time();
    client_conn.start_usage = our_get_current_usage();

    let ret = (|| {
        // post our first receive and tell the agent that our first ping is there
        our_send_ping(client_conn, options)?;

        loop {
            // wait for next work completion
            // if we hit an error or FLUSH_ERR, leave now
            let work_completion = our_await_completion(client_conn, options)?;

            // see whether it was the send or recv that just completed
            match work_completion.opcode {
                ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM => {
                    client_conn.wc_rdma_both += 1;
                    let wc_rdma_both = client_conn.wc_rdma_both;

                    // the length is that of the data in our memory; the receive has none
                    if u64::from(work_completion.byte_len) != options.data_size {
                        errln!(
                            "{message}: received {} bytes, expected {data_size}",
                            work_completion.byte_len
                        );
                        return Err(Reported);
                    }

                    // the immediate data say which ping it answers
                    let imm_data = our_imm_data(&work_completion);
                    if imm_data != wc_rdma_both as u32 {
                        errln!(
                            "{message}: received immediate data {imm_data}, expected {wc_rdma_both}"
                        );
                        return Err(Reported);
                    }

                    if options.flags & VERBOSE_TRACING != 0 {
                        errln!("{message}: {imm_data} recv immediate data completed ok");
                    }

                    if options.flags & VERIFY != 0 {
                        let ping = &client_conn.user_data[0][..data_size];
                        let pong = &client_conn.user_data[1][..data_size];
                        if ping != pong {
                            errln!("{message}: {wc_rdma_both} ping data {}", c_text(ping));
                            errln!("{message}: {wc_rdma_both} pong data {}", c_text(pong));
                            errln!("{message}: {wc_rdma_both} verification failed");
                        } else {
                            if options.flags & VERBOSE_TRACING != 0 {
                                errln!("{message}: {wc_rdma_both} verification ok");
                            }
                            pong.iter().for_each(|byte| byte.set(0));
                        }
                    }

                    // don't send any more data if we reached our limit
                    if wc_rdma_both >= options.limit {
                        return Ok(());
                    }

                    // post next receive and tell the agent that our next ping is there
                    our_send_ping(client_conn, options)?;
                }

                ibv_wc_opcode::IBV_WC_SEND => {
                    if options.flags & VERBOSE_TRACING != 0 {
                        errln!("{message}: send ACK completed ok");
                    }
                }

                opcode => {
                    our_report_ulong("", "bad work completion opcode", opcode.into(), options);
                    return Err(Reported);
                }
            }
        }
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
