//! The client: blasts data to the server, as much as its credit allows.

use std::cell::Cell;
use std::process::ExitCode;
use std::ptr;

use common::errln;
use common::getopt::args;
use common::memory::{c_text, copied};
use common::utilities::{OurResult, Reported, exit_code};
use rdma_sys::{ibv_send_wr, ibv_wc_opcode, ibv_wc_status};

use crate::bind_client::our_client_bind;
use crate::c_d_buffers::{our_setup_client_buffers, our_unsetup_buffers};
use crate::c_d_connect::{our_client_connect, our_disconnect};
use crate::c_d_control_struct::{our_create_control_struct, our_destroy_control_struct};
use crate::c_d_id::{our_create_id, our_destroy_id};
use crate::c_d_queue_pair::{our_setup_qp, our_unsetup_qp};
use crate::process_cm_events::{our_create_cm_event_thread, our_destroy_cm_event_thread};
use crate::process_completions::{
    our_add_to_work_request_list, our_check_completion_status, our_fill_completion_array,
};
use crate::process_options::our_process_options;
use crate::prototypes::{
    Label, OUR_ACK_SIZE, OurControl, OurOptions, OurSendWorkRequestList, VERBOSE_TRACING,
};
use crate::send_recv::{our_post_recv, our_post_send};
use crate::utilities::{
    our_get_current_time, our_get_current_usage, our_print_statistics, our_report_ulong,
    our_trace_ptr, our_trace_uint64, our_trace_ulong,
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

/// Sends `limit` messages to the server, as many at once as there are free buffers and credits,
/// and waits until all are acked.
fn our_client_operation(client_conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let message = &options.message;
    let data_size = options.data_size as usize;

    // counts acks received
    let mut n_replies = 0;

    // counts data buffers acked
    let mut n_acked_buffers: u64 = 0;

    // number of recvs remote agent currently has posted for client to use
    let mut credit_count = options.n_data_buffers;

    // put all user_data_send_work_requests onto local list
    let mut data_list = OurSendWorkRequestList::default();
    for work_request in &client_conn.user_data_send_work_request[..client_conn.n_user_data_bufs] {
        our_add_to_work_request_list(&mut data_list, work_request);
    }

    // wc_recv counts send work requests posted, wc_send those completed; at the end these two
    // values should be equal
    client_conn.wc_recv = 0;
    client_conn.wc_send = 0;

    // fill in the client's data buffers with a meaningful pattern
    let mut pattern = (b' '..=b'~').cycle();
    for user_data in &client_conn.user_data[..client_conn.n_user_data_bufs] {
        for (byte, character) in user_data[..data_size].iter().zip(&mut pattern) {
            byte.set(character);
        }
    }
    if options.flags & VERBOSE_TRACING != 0 && data_size <= 200 {
        errln!(
            "{message}: user_data[0] ({data_size} bytes): {}",
            c_text(&client_conn.user_data[0])
        );
    }

    // post our receives to catch the server's acks
    for work_request in client_conn.recv_ack_work_request.iter() {
        our_post_recv(client_conn, work_request, options)?;
    }

    // mark the time we start sending to server
    client_conn.start_time = our_get_current_time();
    client_conn.start_usage = our_get_current_usage();

    let ret = (|| {
        while client_conn.wc_recv < options.limit || n_acked_buffers < options.limit {
            if options.flags & VERBOSE_TRACING != 0 {
                our_trace_ulong("our_post_send", "work_request_list size", data_list.size, options);
                our_trace_ulong("our_post_send", "credit_count", credit_count, options);
            }
            if data_list.size > 0 && credit_count > 0 {
                // we have something to send, and we have credits
                let send_list = data_list.head; // start sending here
                let list_size = data_list.size.min(credit_count);
                if list_size < data_list.size {
                    // send only first part of work request list to agent
                    let mut last_in_list = send_list;
                    for _ in 1..list_size {
                        // SAFETY: the list has more than `list_size` elements.
                        last_in_list = unsafe { (*last_in_list).next };
                    }
                    // cut the data_list here
                    // SAFETY: as above.
                    data_list.head = unsafe { (*last_in_list).next };
                    // SAFETY: as above.
                    unsafe { (*last_in_list).next = ptr::null_mut() };
                }
                data_list.size -= list_size;
                credit_count -= list_size;

                if options.flags & VERBOSE_TRACING != 0 {
                    our_report_ulong("our_post_send", "send list size", list_size, options);
                    our_report_ulong("our_post_send", "credit_count", credit_count, options);
                }
                // SAFETY: the list was not empty, so this is an element of
                // `user_data_send_work_request`.
                let send_list = unsafe { &*send_list.cast::<Cell<ibv_send_wr>>() };
                our_post_send(client_conn, send_list, options)?;

                // that work request list was posted ok, count it
                client_conn.wc_recv += list_size;

                // keep distribution of work_request chain sizes
                match client_conn.wr_chain_stats.get_mut(list_size as usize) {
                    Some(occurrences) => {
                        client_conn.send_stats += 1;
                        *occurrences += 1;
                    }
                    None => our_report_ulong("send list size", "too big", list_size, options),
                }
            }

            // wait for next work completion
            our_fill_completion_array(client_conn, options)?;

            // we now have at least 1 unprocessed work completion in the array; form a list of
            // all work requests from send work completions
            while client_conn.index_work_completions < client_conn.current_n_work_completions {
                let index = client_conn.index_work_completions;
                let work_completion = copied(&client_conn.work_completion[index]);
                client_conn.index_work_completions += 1;
                let index = work_completion.wr_id as usize;

                let flushed = work_completion.status == ibv_wc_status::IBV_WC_WR_FLUSH_ERR;
                if flushed && n_acked_buffers >= options.limit {
                    // all is sent and acked, and the agent does not wait for us to leave
                    return Ok(());
                }
                // if we hit an error or FLUSH_ERR, leave now
                our_check_completion_status(client_conn, &work_completion, options)?;

                // was it a send or recv that just completed?
                match work_completion.opcode {
                    ibv_wc_opcode::IBV_WC_RECV => {
                        // just completed receiving an ack from agent
                        n_replies += 1;
                        if options.flags & VERBOSE_TRACING != 0 {
                            errln!("{message}: {n_replies} recv completed ok");
                        }
                        if work_completion.byte_len as usize != OUR_ACK_SIZE {
                            errln!(
                                "{message}: received {} bytes, expected {OUR_ACK_SIZE}",
                                work_completion.byte_len
                            );
                            return Err(Reported);
                        }
                        // number of sends acked by remote agent in this recv
                        let ack_count = client_conn.recv_ack[index].get().ack_count();
                        credit_count = credit_count.saturating_add(ack_count);
                        n_acked_buffers = n_acked_buffers.saturating_add(ack_count);

                        // post work request to recv another ack
                        let work_request = &client_conn.recv_ack_work_request[index];
                        our_post_recv(client_conn, work_request, options)?;
                        our_trace_uint64("our_post_recv", "ack_count", ack_count, options);
                    }

                    ibv_wc_opcode::IBV_WC_SEND => {
                        // just completed sending 1 data buffer to agent
                        client_conn.wc_send += 1;
                        if options.flags & VERBOSE_TRACING != 0 {
                            errln!("{message}: {} send completed ok", client_conn.wc_send);
                        }
                        // see if we need to post this send again
                        if client_conn.wc_recv + data_list.size < options.limit {
                            let work_request = &client_conn.user_data_send_work_request[index];
                            our_add_to_work_request_list(&mut data_list, work_request);
                        }
                    }

                    opcode => {
                        our_report_ulong("", "bad work completion opcode", opcode.into(), options);
                        return Err(Reported);
                    }
                }
            }
        }
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
