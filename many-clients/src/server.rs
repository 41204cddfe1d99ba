//! The server: a listener, and an agent for each client.

use std::process::ExitCode;
use std::thread;

use common::getopt::args;
use common::utilities::{OurResult, Reported, exit_code};

use crate::agent::our_agent_operation;
use crate::bind_listener::our_listener_bind;
use crate::c_d_buffers::{our_setup_agent_buffers, our_setup_counter, our_unsetup_buffers};
use crate::c_d_connect::{our_agent_connect, our_disconnect};
use crate::c_d_control_struct::{our_create_control_struct, our_destroy_control_struct};
use crate::c_d_id::{our_create_id, our_destroy_id, our_migrate_id};
use crate::c_d_queue_pair::{our_setup_qp, our_unsetup_qp};
use crate::one_poll::our_one_poll;
use crate::process_cm_events::{
    our_await_request, our_create_cm_event_thread, our_destroy_cm_event_thread,
};
use crate::process_options::our_process_options;
use crate::prototypes::{
    CmId, Label, ONE_POLL, OurConnectInfo, OurControl, OurCounter, OurOptions,
};
use crate::send_recv::our_post_recv;
use crate::utilities::{our_counter, our_report_error, our_report_uint64, our_trace_ptr};

/// An agent, who deals with the one client behind `event_cm_id`; `connect_info` came with the
/// client's connect request.
fn our_agent(
    event_cm_id: CmId,
    connect_info: &OurConnectInfo,
    counter: OurCounter,
    mut agent_options: OurOptions,
) -> OurResult {
    // the agent has a copy of the listener's options, because it changes some of them to agree
    // with the client's values
    let options = &mut agent_options;

    let mut agent_conn = our_create_control_struct(options)?;
    let conn = &mut *agent_conn;

    // what has to be undone, by C's labels
    let mut out = Label::Out1;
    let done = (|| {
        our_migrate_id(conn, event_cm_id.0, connect_info, options)?;
        out = Label::Out1a;

        // set up a new thread to handle agent's cm events
        our_create_cm_event_thread(conn, options)?;
        out = Label::Out2;

        our_setup_qp(conn, conn.cm_id, options)?;
        out = Label::Out3;

        our_setup_agent_buffers(conn, counter, options)?;
        out = Label::Out4;

        // post first receive for remote buffer info on the agent_conn
        our_post_recv(conn, &conn.remote_buffer_info_work_request, options)?;

        our_agent_connect(conn, options)?;
        out = Label::Out5;

        our_trace_ptr("Agent", "accepted our_control", conn, options);

        // the agent now lets the client count
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

/// Starts an agent thread for each client, and waits until all of them have ended.
fn our_agent_threads(
    listen_conn: &OurControl,
    counter: OurCounter,
    listener_options: &OurOptions,
) -> OurResult {
    let mut agents = Vec::new();
    let mut done = Ok(());
    for number in 1..=listener_options.n_clients {
        // just wait for a client to request a connect
        let request = our_await_request(listen_conn, listener_options);
        let started = request.and_then(|(cm_id, connect_info)| {
            // hand the client's request over to a new agent
            let (cm_id, options) = (CmId(cm_id), listener_options.numbered(number));
            thread::Builder::new()
                .spawn(move || our_agent(cm_id, &connect_info, counter, options))
                .map_err(|error| {
                    let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
                    our_report_error(errno, "pthread_create", listener_options);
                    Reported
                })
        });
        match started {
            Ok(agent) => agents.push(agent),
            Err(error) => {
                done = Err(error);
                break;
            }
        }
    }
    for agent in agents {
        done = done.and(agent.join().unwrap_or(Err(Reported)));
    }
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

        let counter = our_setup_counter(conn, options)?;

        our_listener_bind(conn, options)?;

        // listener all setup, serve so many clients
        let done = if options.flags & ONE_POLL != 0 {
            our_one_poll(conn, counter, options)
        } else {
            our_agent_threads(conn, counter, options)
        };

        // all clients are done, or gone: nobody adds any more
        our_report_uint64("listener", "counter", our_counter(conn), options);
        done
    })();
    if out >= Label::Out2a {
        let _ = our_destroy_id(conn, options);
    }
    our_destroy_control_struct(listen_conn, options);
    exit_code(done)
}
