//! The client: sends, and waits for its data to come back.

use std::process::ExitCode;

use common::errln;
use common::memory::c_text;
use common::utilities::{OurResult, Reported};
use rdma_sys::ibv_wc_opcode;

use crate::bind_client::our_client_bind;
use crate::c_d_buffers::{our_setup_client_buffers, our_unsetup_buffers};
use crate::c_d_connect::{our_client_connect, our_disconnect};
use crate::c_d_control_struct::{our_create_control_struct, our_destroy_control_struct};
use crate::c_d_id::{our_create_id, our_destroy_id};
use crate::c_d_queue_pair::{our_setup_qp, our_unsetup_qp};
use crate::process_cm_events::{our_create_cm_event_thread, our_destroy_cm_event_thread};
use crate::process_completions::our_await_completion;
use crate::process_options::our_process_options;
use crate::prototypes::{Label, OurControl, OurOptions, VERBOSE_TRACING, VERIFY};
use crate::send_recv::{our_post_recv, our_post_send};
use crate::utilities::{
    our_get_current_time, our_get_current_usage, our_print_statistics, our_report_ulong,
    our_trace_ptr,
};

/// `limit` times: posts a receive, sends data to the server, and waits for both to complete.
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

    client_conn.wc_recv = 0;
    client_conn.wc_send = 0;

    // post our first receive to catch the server's first reply
    our_post_recv(client_conn, &client_conn.user_data_recv_work_request[0], options)?;

    // mark the time we start sending to server
    client_conn.start_time = our_get_current_time();
    client_conn.start_usage = our_get_current_usage();

    let ret = 'out1: {
        // post our first send to send our data to the server
        let work_request = &client_conn.user_data_send_work_request[0];
        if let Err(error) = our_post_send(client_conn, work_request, options) {
            break 'out1 Err(error);
        }

        loop {
            // wait for next work completion
            let work_completion = match our_await_completion(client_conn, options) {
                Ok(work_completion) => work_completion,
                // hit error or FLUSH_ERR, in either case leave now
                Err(error) => break 'out1 Err(error),
            };

            // see whether it was the send or recv that just completed
            match work_completion.opcode {
                ibv_wc_opcode::IBV_WC_RECV => {
                    client_conn.wc_recv += 1;
                    if u64::from(work_completion.byte_len) != options.data_size {
                        errln!(
                            "{message}: received {} bytes, expected {data_size}",
                            work_completion.byte_len
                        );
                    }

                    if options.flags & VERBOSE_TRACING != 0 {
                        errln!("{message}: {} recv completed ok", client_conn.wc_recv);
                    }

                    if options.flags & VERIFY != 0 {
                        let ping = &client_conn.user_data[0][..data_size];
                        let pong = &client_conn.user_data[1][..data_size];
                        if ping != pong {
                            let wc_recv = client_conn.wc_recv;
                            errln!("{message}: {wc_recv} ping data {}", c_text(ping));
                            errln!("{message}: {wc_recv} pong data {}", c_text(pong));
                            errln!("{message}: {wc_recv} verification failed");
                        } else {
                            if options.flags & VERBOSE_TRACING != 0 {
                                errln!("{message}: {} verification ok", client_conn.wc_recv);
                            }
                            pong.iter().for_each(|byte| byte.set(0));
                        }
                    }

                    // don't send any more data if we reached our limit
                    if client_conn.wc_recv >= options.limit {
                        break 'out1 Ok(());
                    }

                    // post next receive to catch server's next reply
                    let work_request = &client_conn.user_data_recv_work_request[0];
                    if let Err(error) = our_post_recv(client_conn, work_request, options) {
                        break 'out1 Err(error);
                    }

                    // post next send to resend our data to the server
                    let work_request = &client_conn.user_data_send_work_request[0];
                    if let Err(error) = our_post_send(client_conn, work_request, options) {
                        break 'out1 Err(error);
                    }
                }

                ibv_wc_opcode::IBV_WC_SEND => {
                    client_conn.wc_send += 1;
                    if options.flags & VERBOSE_TRACING != 0 {
                        errln!("{message}: {} send completed ok", client_conn.wc_send);
                    }
                }

                opcode => {
                    our_report_ulong("", "bad work completion opcode", opcode.into(), options);
                    break 'out1 Err(Reported);
                }
            }
        }
    };

    our_print_statistics(client_conn, options);
    ret
}

/// The client's main program.
pub fn main() -> ExitCode {
    // assume there is an error somewhere along the line
    let mut result = ExitCode::FAILURE;

    // process the command line options -- don't go on if any errors
    let Ok(options) = our_process_options(&common::getopt::args()) else { return result };
    let options = &options;

    // allocate our own control structure to keep track of new connection
    let Ok(mut client_conn) = our_create_control_struct(options) else { return result };
    let conn = &mut *client_conn;

    // C's labels: a step that fails goes on to what undoes the steps before it
    let out = 'goto: {
        if our_create_id(conn, options).is_err() {
            break 'goto Label::Out2;
        }

        if our_create_cm_event_thread(conn, options).is_err() {
            break 'goto Label::Out2a;
        }

        if our_client_bind(conn, options).is_err() {
            break 'goto Label::Out3;
        }

        if our_setup_qp(conn, conn.cm_id, options).is_err() {
            break 'goto Label::Out3;
        }

        if our_setup_client_buffers(conn, options).is_err() {
            break 'goto Label::Out4;
        }

        if our_client_connect(conn, options).is_err() {
            break 'goto Label::Out5;
        }

        our_trace_ptr("Client", "connected our_control", conn, options);

        // the client now ping-pongs data with the server
        if our_client_operation(conn, options).is_err() {
            break 'goto Label::Out6;
        }

        // the client finished successfully, continue into tear-down phase
        result = ExitCode::SUCCESS;
        Label::Out6
    };
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
    result
}
