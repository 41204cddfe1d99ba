//! The server in its other form: one thread, which waits by one `poll()` for the events of all
//! connections and for the completions of all clients.
//!
//! Nobody may wait for one client here, because all others would wait with it. So what an agent's
//! thread does one step after the other is in pieces, and each agent knows how far it has come.

use std::iter;

use common::errln;
use common::errno;
use common::utilities::{OurResult, Reported};
use rdma_sys::{ibv_wc, ibv_wc_opcode, rdma_cm_event_type, rdma_cm_id, rdma_disconnect};

use crate::c_d_buffers::{our_setup_agent_buffers, our_unsetup_buffers};
use crate::c_d_connect::{our_agent_accept, our_agent_accepted};
use crate::c_d_control_struct::{our_create_control_struct, our_destroy_control_struct};
use crate::c_d_id::{our_destroy_id, our_migrate_id, our_refuse_id};
use crate::c_d_queue_pair::{our_setup_qp, our_unsetup_qp};
use crate::process_cm_events::{OurCmEvent, our_get_cm_event, our_report_unexpected};
use crate::process_completions::{our_await_completion, our_has_completion, our_poll_completions};
use crate::prototypes::{Label, OurBufferInfo, OurConnectInfo, OurControl, OurCounter, OurOptions};
use crate::send_recv::{our_post_recv, our_post_send};
use crate::utilities::{
    our_get_current_time, our_get_current_usage, our_print_statistics, our_report_error,
};

/// The message or event that an agent waits for next.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    /// The client's buffer info.
    BufferInfo,
    /// The client's ack, which comes when it has counted.
    Ack,
    /// The end of the connection.
    Disconnect,
    /// The same, after an error.
    Failed,
}

/// An agent that has no thread.
struct Agent {
    conn: Box<OurControl>,
    options: OurOptions,
    step: Step,
}

/// All agents that there are, and what has become of those before them.
struct Agents {
    agents: Vec<Agent>,
    /// Requests that were taken.
    requests: u64,
    /// An error, if one of them has failed.
    done: OurResult,
}

/// Sets up an agent for a request, as `our_agent` does in a thread of its own, and accepts it.
fn our_start_agent(
    cm_id: *mut rdma_cm_id,
    connect_info: &OurConnectInfo,
    counter: OurCounter,
    mut options: OurOptions,
) -> OurResult<Agent> {
    let mut agent_conn = our_create_control_struct(&options)?;
    let conn = &mut *agent_conn;

    // what has to be undone, by the labels of `our_agent`
    let mut out = Label::Out1;
    let done = (|| {
        our_migrate_id(conn, cm_id, connect_info, &mut options)?;
        out = Label::Out2;

        our_setup_qp(conn, conn.cm_id, &options)?;
        out = Label::Out3;

        our_setup_agent_buffers(conn, counter, &options)?;
        out = Label::Out4;

        // post both receives: for remote buffer info, and for the remote client's only ack
        our_post_recv(conn, &conn.remote_buffer_info_work_request, &options)?;
        our_post_recv(conn, &conn.recv_ack_work_request, &options)?;

        // this does not wait, either
        our_agent_accept(conn, &options)
    })();
    if done.is_ok() {
        return Ok(Agent { conn: agent_conn, options, step: Step::BufferInfo });
    }
    if out >= Label::Out4 {
        our_unsetup_buffers(conn, &options);
    }
    if out >= Label::Out3 {
        our_unsetup_qp(conn, &options);
    }
    if out >= Label::Out2 {
        let _ = our_destroy_id(conn, &options);
    }
    our_destroy_control_struct(agent_conn, &options);
    Err(Reported)
}

/// Undoes [`our_start_agent`].
fn our_end_agent(mut agent: Agent) {
    let (conn, options) = (&mut *agent.conn, &agent.options);
    our_unsetup_buffers(conn, options);
    our_unsetup_qp(conn, options);
    let _ = our_destroy_id(conn, options);
    our_destroy_control_struct(agent.conn, options);
}

/// Disconnects, or answers a disconnect of the client's; the event comes later.
fn our_start_disconnect(agent: &Agent) {
    errno::set(0);
    // SAFETY: the id is alive.
    let ret = unsafe { rdma_disconnect(agent.conn.cm_id) };
    if ret != 0 && errno::get() != libc::EINVAL {
        our_report_error(ret, "rdma_disconnect", &agent.options);
    }
}

/// Handles a completion of an agent's, as `our_agent_operation` does after waiting for it.
fn our_agent_step(agent: &mut Agent, work_completion: &ibv_wc) -> OurResult {
    let (conn, options) = (&mut *agent.conn, &agent.options);
    match (work_completion.opcode, agent.step) {
        (ibv_wc_opcode::IBV_WC_RECV, Step::BufferInfo) => {
            if work_completion.byte_len as usize != OurBufferInfo::LEN {
                errln!(
                    "{}: received {} bytes, expected {}",
                    options.message,
                    work_completion.byte_len,
                    OurBufferInfo::LEN
                );
                return Err(Reported);
            }

            // mark the time we start waiting for client to finish
            conn.start_time = our_get_current_time();
            conn.start_usage = our_get_current_usage();

            // now we send our local buffer info to the remote client
            agent.step = Step::Ack;
            our_post_send(conn, &conn.local_buffer_info_work_request, options)
        }

        (ibv_wc_opcode::IBV_WC_RECV, Step::Ack) => {
            // the ack says how many operations the client finished
            conn.wc_atomic = conn.recv_ack[0].get().ack_count().into();
            our_print_statistics(conn, options);

            // now we send an ack to the remote client, which then disconnects
            agent.step = Step::Disconnect;
            our_post_send(conn, &conn.send_ack_work_request, options)
        }

        // a send of ours
        _ => Ok(()),
    }
}

/// Takes the completions that the channel has told of. None of this waits.
fn our_agent_completions(agent: &mut Agent) -> OurResult {
    our_poll_completions(&mut agent.conn, &agent.options)?;
    while our_has_completion(&agent.conn) {
        let work_completion = our_await_completion(&mut agent.conn, &agent.options)?;
        our_agent_step(agent, &work_completion)?;
    }
    Ok(())
}

/// Waits until a descriptor is ready: the first is that of the listener's channel, the others are
/// those of the agents' completion channels. Tells for each whether it is.
fn our_poll(
    listen_conn: &OurControl,
    agents: &[Agent],
    options: &OurOptions,
) -> OurResult<Vec<bool>> {
    // SAFETY: the channels live as long as the listener and the agents.
    let listener_fd = unsafe { (*listen_conn.cm_event_channel).fd };
    // SAFETY: as above.
    let agent_fds = agents.iter().map(|agent| unsafe { (*agent.conn.completion_channel).fd });
    let mut fds: Vec<_> = iter::once(listener_fd)
        .chain(agent_fds)
        .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
        .collect();
    loop {
        errno::set(0);
        // SAFETY: so many entries are there.
        let ret = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, -1) };
        if ret > 0 {
            return Ok(fds.iter().map(|fd| fd.revents != 0).collect());
        }
        if errno::get() != libc::EINTR {
            our_report_error(ret, "poll", options);
            return Err(Reported);
        }
    }
}

/// Deals with an event of an agent's connection. Gives the agent back unless that has ended.
fn our_agent_event(mut agent: Agent, event: &OurCmEvent, done: &mut OurResult) -> Option<Agent> {
    match event.event_type {
        rdma_cm_event_type::RDMA_CM_EVENT_ESTABLISHED => {
            our_agent_accepted(&agent.conn, &agent.options);
            if agent.step == Step::Failed {
                // there was no connection to end before
                our_start_disconnect(&agent);
            }
            return Some(agent);
        }
        rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED => our_start_disconnect(&agent),
        _ => {
            our_report_unexpected(event, &agent.options);
            agent.step = Step::Failed;
        }
    }
    if agent.step != Step::Disconnect {
        if agent.step != Step::Failed {
            errln!("{}: the client has gone before its ack", agent.options.message);
        }
        *done = Err(Reported);
    }
    our_end_agent(agent);
    None
}

/// Waits for what comes next, and deals with it.
fn our_serve(
    listen_conn: &OurControl,
    all: &mut Agents,
    counter: OurCounter,
    options: &OurOptions,
) -> OurResult {
    let Agents { agents, requests, done } = all;
    let ready = our_poll(listen_conn, agents, options)?;

    // first the completions: an event may be the end of an agent
    for (agent, _) in agents.iter_mut().zip(&ready[1..]).filter(|(_, ready)| **ready) {
        if our_agent_completions(agent).is_err() && agent.step != Step::Failed {
            agent.step = Step::Failed;
            our_start_disconnect(agent);
        }
    }

    if !ready[0] {
        return Ok(());
    }
    let event = our_get_cm_event(listen_conn, options)?;
    if event.event_type != rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST {
        // an event of one of the agents
        match agents.iter().position(|agent| agent.conn.cm_id == event.cm_id) {
            Some(i) => {
                let agent = agents.remove(i);
                agents.extend(our_agent_event(agent, &event, done));
            }
            None => our_report_unexpected(&event, options),
        }
        return Ok(());
    }
    match event.connect_info {
        Some(connect_info) if *requests < options.n_clients => {
            *requests += 1;
            let options = options.numbered(*requests);
            match our_start_agent(event.cm_id, &connect_info, counter, options) {
                Ok(agent) => agents.push(agent),
                Err(error) => *done = Err(error),
            }
        }
        // one too many, or one that does not say what it wants
        _ => our_refuse_id(event.cm_id, options),
    }
    Ok(())
}

/// Serves so many clients, and waits until all of them have gone.
pub fn our_one_poll(
    listen_conn: &OurControl,
    counter: OurCounter,
    options: &OurOptions,
) -> OurResult {
    let mut all = Agents { agents: Vec::new(), requests: 0, done: Ok(()) };
    while all.requests < options.n_clients || !all.agents.is_empty() {
        let served = our_serve(listen_conn, &mut all, counter, options);
        if served.is_err() {
            // nothing more can be heard of any of them
            all.agents.into_iter().for_each(our_end_agent);
            return served;
        }
    }
    all.done
}
