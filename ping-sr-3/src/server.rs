//! The server: a listener, and an agent that deals with one client.

use std::process::ExitCode;

use common::utilities::{OurResult, Reported};
use rdma_sys::{rdma_cm_event_type, rdma_cm_id};

use crate::agent::our_agent_operation;
use crate::bind_listener::our_listener_bind;
use crate::c_d_buffers::{our_setup_agent_buffers, our_unsetup_buffers};
use crate::c_d_connect::{our_agent_connect, our_disconnect};
use crate::c_d_control_struct::{our_create_control_struct, our_destroy_control_struct};
use crate::c_d_id::{our_create_id, our_destroy_id, our_migrate_id};
use crate::c_d_queue_pair::{our_setup_qp, our_unsetup_qp};
use crate::process_cm_events::{
    our_await_cm_event, our_create_cm_event_thread, our_destroy_cm_event_thread,
};
use crate::process_options::our_process_options;
use crate::prototypes::{Label, OurConnectInfo, OurOptions};
use crate::send_recv::our_post_recv;
use crate::utilities::our_trace_ptr;

/// The agent, who deals with the one client behind `event_cm_id`; `connect_info` came with the
/// client's connect request.
fn our_agent(
    event_cm_id: *mut rdma_cm_id,
    connect_info: &OurConnectInfo,
    listener_options: &OurOptions,
) -> OurResult {
    // assume there is an error somewhere along the line
    let mut result = Err(Reported);

    // the agent has a copy of the listener's options, because it changes some of them to agree
    // with the client's values
    let options = &mut listener_options.clone();

    let mut agent_conn = our_create_control_struct(options)?;
    let conn = &mut *agent_conn;

    // C's labels: a step that fails goes on to what undoes the steps before it
    let out = 'goto: {
        if our_migrate_id(conn, event_cm_id, connect_info, options).is_err() {
            break 'goto Label::Out1;
        }

        // set up a new thread to handle agent's cm events
        if our_create_cm_event_thread(conn, options).is_err() {
            break 'goto Label::Out1a;
        }

        if our_setup_qp(conn, conn.cm_id, options).is_err() {
            break 'goto Label::Out2;
        }

        if our_setup_agent_buffers(conn, options).is_err() {
            break 'goto Label::Out3;
        }

        // post first receive on the agent_conn
        let work_request = &conn.user_data_recv_work_request[0];
        if our_post_recv(conn, work_request, options).is_err() {
            break 'goto Label::Out4;
        }

        if our_agent_connect(conn, options).is_err() {
            break 'goto Label::Out4;
        }

        our_trace_ptr("Agent", "accepted our_control", conn, options);

        // the agent now ping-pongs data with the client
        if our_agent_operation(conn, options).is_err() {
            break 'goto Label::Out5;
        }

        // the agent finished successfully, continue into tear-down phase
        result = Ok(());
        Label::Out5
    };
    if out >= Label::Out5 {
        let _ = our_disconnect(conn, options);
    }
    if out >= Label::Out4 {
        our_unsetup_buffers(conn, options);
    }
    if out >= Label::Out3 {
        our_unsetup_qp(conn, options);
    }
    if out >= Label::Out2 {
        let _ = our_destroy_cm_event_thread(conn, options);
    }
    if out >= Label::Out1a {
        let _ = our_destroy_id(conn, options);
    }
    our_destroy_control_struct(agent_conn, options);
    result
}

/// The server's main program, which really is the listener.
pub fn main() -> ExitCode {
    // assume there is an error somewhere along the line
    let mut result = ExitCode::FAILURE;

    // process the command line options -- don't go on if any errors
    let Ok(options) = our_process_options(&common::getopt::args()) else { return result };
    let options = &options;

    // allocate our own control structure for listener's connection
    let Ok(mut listen_conn) = our_create_control_struct(options) else { return result };
    let conn = &mut *listen_conn;

    // C's labels: a step that fails goes on to what undoes the steps before it
    let out = 'goto: {
        if our_create_id(conn, options).is_err() {
            break 'goto Label::Out2;
        }

        // set up a separate thread to handle cm events
        if our_create_cm_event_thread(conn, options).is_err() {
            break 'goto Label::Out2a;
        }

        if our_listener_bind(conn, options).is_err() {
            break 'goto Label::Out3;
        }

        // listener all setup, just wait for a client to request a connect
        let connect_request = rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST;
        let Ok((event_cm_id, connect_info)) =
            our_await_cm_event(conn, connect_request, "listener", options)
        else {
            break 'goto Label::Out3;
        };

        // hand the client's request over to a new agent
        if our_agent(event_cm_id, &connect_info, options).is_err() {
            break 'goto Label::Out3;
        }

        // the agent finished successfully, continue into tear-down phase
        result = ExitCode::SUCCESS;
        Label::Out3
    };
    if out >= Label::Out3 {
        let _ = our_destroy_cm_event_thread(conn, options);
    }
    if out >= Label::Out2a {
        let _ = our_destroy_id(conn, options);
    }
    our_destroy_control_struct(listen_conn, options);
    result
}
