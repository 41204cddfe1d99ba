//! Connects and disconnects.

use std::ptr;

use common::errno;
use common::memory::zeroed;
use common::utilities::{OurResult, Reported};
use rdma_sys::{rdma_accept, rdma_conn_param, rdma_connect, rdma_disconnect};

use crate::prototypes::{OurControl, OurOptions};
use crate::utilities::{our_report_error, our_report_ptr};

/// Parameters of the new connection.
fn our_setup_conn_params() -> rdma_conn_param {
    let mut params: rdma_conn_param = zeroed();

    params.private_data = ptr::null();
    params.private_data_len = 0;

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
    // set up parameters to define properties of the new connection
    let mut client_params = our_setup_conn_params();

    errno::set(0);
    // SAFETY: the id is alive, its route is resolved and it has a queue pair.
    let ret = unsafe { rdma_connect(client_conn.cm_id, &mut client_params) };
    if ret != 0 {
        our_report_error(ret, "rdma_connect", options);
        return Err(Reported);
    }

    // in this demo, rdma_connect() operates synchronously

    // client connection established ok
    our_report_ptr("rdma_connect", "connected cm_id", client_conn.cm_id, options);
    Ok(())
}

/// Accepts the client's request.
pub fn our_agent_connect(agent_conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let mut agent_params = our_setup_conn_params();

    errno::set(0);
    // SAFETY: the id came with the request, is alive and has a queue pair.
    let ret = unsafe { rdma_accept(agent_conn.cm_id, &mut agent_params) };
    if ret != 0 {
        our_report_error(ret, "rdma_accept", options);
        return Err(Reported);
    }

    // in this demo, rdma_accept() operates synchronously

    // agent connection established ok
    our_report_ptr("rdma_accept", "accepted cm_id", agent_conn.cm_id, options);
    Ok(())
}

/// Disconnects, unless the other side has done so.
pub fn our_disconnect(conn: &mut OurControl, options: &OurOptions) -> OurResult {
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

    // in this demo, rdma_disconnect() operates synchronously

    // connection disconnected ok
    our_report_ptr(cptr, "disconnected cm_id", conn.cm_id, options);
    Ok(())
}
