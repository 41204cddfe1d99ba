//! The client: sends, and waits for its data to come back.

use std::process::ExitCode;

use common::errln;
use common::getopt::args;
use common::memory::c_text;
use common::utilities::{OurResult, Reported, exit_code};
use rdma_sys::ibv_wc_opcode;

use crate::bind_client::our_client_bind;
use crate::c_d_buffers::{our_setup_client_buffers, our_unsetup_buffers};
use crate::c_d_connect::{our_client_connect, our_disconnect};
use crate::c_d_control_struct::{our_create_control_struct, our_destroy_control_struct};
use crate::c_d_id::{our_create_id, our_destroy_id};
use crate::c_d_queue_pair::{our_setup_qp, our_unsetup_qp};
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

    let ret = (|| {
        // post our first send to send our data to the server
        our_post_send(client_conn, &client_conn.user_data_send_work_request[0], options)?;

        loop {
            // wait for next work completion
            // if we hit an error or FLUSH_ERR, leave now
            let work_completion = our_await_completion(client_conn, options)?;

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
                        return Ok(());
                    }

                    // post next receive to catch server's next reply
                    let work_request = &client_conn.user_data_recv_work_request[0];
                    our_post_recv(client_conn, work_request, options)?;

                    // post next send to resend our data to the server
                    let work_request = &client_conn.user_data_send_work_request[0];
                    our_post_send(client_conn, work_request, options)?;
                }

                ibv_wc_opcode::IBV_WC_SEND => {
                    client_conn.wc_send += 1;
                    if options.flags & VERBOSE_TRACING != 0 {
                        // C's number is that of the receives so far
                        errln!("{message}: {} send completed ok", client_conn.wc_recv);
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
        let _ = our_destroy_id(conn, options);
    }
    our_destroy_control_struct(client_conn, options);
    exit_code(done)
}
