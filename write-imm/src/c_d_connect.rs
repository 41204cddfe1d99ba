//! Connects and disconnects.

use common::errno;
use common::memory::zeroed;
use common::utilities::{OurResult, Reported};
use rdma_sys::{rdma_accept, rdma_cm_event_type, rdma_conn_param, rdma_connect, rdma_disconnect};

use crate::process_cm_events::our_await_cm_event;
use crate::prototypes::{OurConnectInfo, OurControl, OurOptions};
use crate::utilities::{our_report_error, our_report_ptr, our_trace_ulong};

/// Parameters of the new connection. They point at `private_data`.
fn our_setup_conn_params(private_data: &[u8]) -> rdma_conn_param {
    let mut params: rdma_conn_param = zeroed();

    params.private_data = private_data.as_ptr().cast();
    params.private_data_len = private_data.len() as u8;

    // RDMA reads and atomics of the peer that our adapter serves at once, and ours that the peer's
    // shall serve; sends, receives and RDMA writes need neither
    params.responder_resources = 2;
    params.initiator_depth = 2;

    // how often our adapter sends again what nobody acknowledges, at most 7 times (rdma_accept
    // ignores it: both sides take the client's)
    params.retry_count = 5;

    // how often the peer's adapter sends again what has found no receive posted here; 7: for ever
    params.rnr_retry_count = 5;
    params
}

/// Connects to the server.
pub fn our_client_connect(client_conn: &mut OurControl, options: &OurOptions) -> OurResult {
    // pass client's limit and data_size to the server as private data
    let connect_info =
        OurConnectInfo { remote_limit: options.limit, remote_data_size: options.data_size }
            .to_private_data();

    // set up parameters to define properties of the new connection
    let mut client_params = our_setup_conn_params(&connect_info);

    our_trace_ulong("rdma_connect", "private_data_len", connect_info.len() as u64, options);

    errno::set(0);
    // SAFETY: the id is alive, its route is resolved and it has a queue pair; the private data
    // is alive, too.
    let ret = unsafe { rdma_connect(client_conn.cm_id, &mut client_params) };
    if ret != 0 {
        our_report_error(ret, "rdma_connect", options);
        return Err(Reported);
    }

    // in this demo, rdma_connect() operates asynchronously
    let established = rdma_cm_event_type::RDMA_CM_EVENT_ESTABLISHED;
    our_await_cm_event(client_conn, established, "rdma_connect", options)?;

    // client connection established ok
    our_report_ptr("rdma_connect", "connected cm_id", client_conn.cm_id, options);
    Ok(())
}

/// Accepts the client's request.
pub fn our_agent_connect(agent_conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let mut agent_params = our_setup_conn_params(&[]);

    errno::set(0);
    // SAFETY: the id came with the request, is alive and has a queue pair.
    let ret = unsafe { rdma_accept(agent_conn.cm_id, &mut agent_params) };
    if ret != 0 {
        our_report_error(ret, "rdma_accept", options);
        return Err(Reported);
    }

    // in this demo, rdma_accept() operates asynchronously
    let established = rdma_cm_event_type::RDMA_CM_EVENT_ESTABLISHED;
    our_await_cm_event(agent_conn, established, "rdma_accept", options)?;

    // agent connection established ok
    our_report_ptr("rdma_accept", "accepted cm_id", agent_conn.cm_id, options);
    Ok(())
}

/// Disconnects, unless the other side has done so.
pub fn our_disconnect(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let mut cm_event_info = conn.cm_event_info.lock();
    if cm_event_info.disconnected != 0 {
        // remote side disconnected before we did, don't do it again
        return Ok(());
    }
    cm_event_info.disconnected = 2;
    drop(cm_event_info);

    errno::set(0);
    // SAFETY: the id is alive.
    let ret = unsafe { rdma_disconnect(conn.cm_id) };
    let cptr = if ret != 0 {
        if errno::get() != libc::EINVAL {
            our_report_error(ret, "rdma_disconnect", options);
            return Err(Reported);
        }
        "remote"
    } else {
        "rdma_disconnect"
    };

    // in this demo, rdma_disconnect() operates asynchronously
    our_await_cm_event(conn, rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED, cptr, options)?;

    // connection disconnected ok
    our_report_ptr(cptr, "disconnected cm_id", conn.cm_id, options);
    Ok(())
}
