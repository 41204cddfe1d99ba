//! A server's further clients.

use std::ptr;

use common::utilities::{OurResult, Reported};
use common::verbs::event_str;
use common::{errln, errno};
use rdma_sys::{rdma_ack_cm_event, rdma_cm_event_type, rdma_get_cm_event};

use crate::control::{OurControl, failed};
use crate::queue_pair::our_setup_qp;

/// An id for the next client that calls a server of [`our_server`](crate::our_server), with a queue pair and a
/// protection domain of its own. [`our_accept`](crate::our_accept) is next.
pub fn our_next_client(server: &OurControl) -> OurResult<OurControl> {
    let mut conn = OurControl::new(server.options);
    let mut event = ptr::null_mut();
    errno::set(0);
    // SAFETY: the id listens, and its channel lives as long; the library writes the event's address.
    let ret = unsafe { rdma_get_cm_event((*server.listen_id).channel, &mut event) };
    if ret != 0 {
        return Err(failed("rdma_get_cm_event", ret, &conn.options));
    }
    // SAFETY: the event was got above and is acknowledged below.
    let (kind, id) = unsafe { ((*event).event, (*event).id) };
    // SAFETY: it was got above, and nothing uses it any more.
    unsafe { rdma_ack_cm_event(event) };
    if kind != rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST {
        errln!("{}: got the event {}", conn.options.message, event_str(kind));
        return Err(Reported);
    }
    conn.cm_id = id;
    our_setup_qp(&mut conn)?;
    Ok(conn)
}
