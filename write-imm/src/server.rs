//! The server: a listener, and an agent that deals with one client.

use std::process::ExitCode;

use common::getopt::args;
use common::utilities::{OurResult, exit_code};
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
    // the agent has a copy of the listener's options, because it changes some of them to agree
    // with the client's values
    let options = &mut listener_options.clone();

    let mut agent_conn = our_create_control_struct(options)?;
    let conn = &mut *agent_conn;

    // what has to be undone, by C's labels
    let mut out = Label::Out1;
    let done = (|| {
        our_migrate_id(conn, event_cm_id, connect_info, options)?;
        out = Label::Out1a;

        // set up a new thread to handle agent's cm events
        our_create_cm_event_thread(conn, options)?;
        out = Label::Out2;

        our_setup_qp(conn, conn.cm_id, options)?;
        out = Label::Out3;

        our_setup_agent_buffers(conn, options)?;
        out = Label::Out4;

        // post first receive for remote buffer info on the agent_conn
        our_post_recv(conn, &conn.remote_buffer_info_work_request, options)?;

        our_agent_connect(conn, options)?;
        out = Label::Out5;

        our_trace_ptr("Agent", "accepted our_control", conn, options);

        // the agent now ping-pongs data with the client
        our_agent_operation(conn, options)
    })();
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
    done
}

/// The server's main program, which really is the listener.
pub fn main() -> ExitCode {
    // process the command line options -- don't go on if any errors
    let Ok(options) = our_process_options(&args()) else { return ExitCode::FAILURE };
    let options = &options;

    // allocate our own control structure for listener's connection
    let Ok(mut listen_conn) = our_create_control_struct(options) else { return ExitCode::FAILURE };
    let conn = &mut *listen_conn;

    // what has to be undone, by C's labels
    let mut out = Label::Out2;
    let done = (|| {
        our_create_id(conn, options)?;
        out = Label::Out2a;

        // set up a separate thread to handle cm events
        our_create_cm_event_thread(conn, options)?;
        out = Label::Out3;

        our_listener_bind(conn, options)?;

        // listener all setup, just wait for a client to request a connect
        let connect_request = rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST;
        let (event_cm_id, connect_info) =
            our_await_cm_event(conn, connect_request, "listener", options)?;

        // hand the client's request over to a new agent
        our_agent(event_cm_id, &connect_info, options)
    })();
    if out >= Label::Out3 {
        let _ = our_destroy_cm_event_thread(conn, options);
    }
    if out >= Label::Out2a {
        let _ = our_destroy_id(conn, options);
    }
    our_destroy_control_struct(listen_conn, options);
    exit_code(done)
}
