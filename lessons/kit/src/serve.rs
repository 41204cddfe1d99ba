//! A server for more than one client: it listens, and takes the requests one by one.

use std::ptr;

use common::errno;
use common::utilities::OurResult;
use rdma_sys::{rdma_port_space, rdma_reject};

use crate::cm_events::{OurEvent, our_create_event_channel, our_get_request};
use crate::connect::our_listen;
use crate::control::{OurControl, OurOptions, failed};
use crate::queue_pair::{our_create_qp_on, our_device, our_setup_cq, our_setup_qp};

/// A server's id that listens. The ids of its clients have channels of their own, so that their calls
/// wait. [`our_next_request`] is next.
pub fn our_listener(options: OurOptions) -> OurResult<OurControl> {
    let mut listener = OurControl::new(options);
    our_listen(&mut listener, rdma_port_space::RDMA_PS_TCP)?;
    Ok(listener)
}

/// The same with an event channel, which is the channel of all its clients, too: none of their calls
/// waits. [`our_get_cm_event`](crate::our_get_cm_event) and [`our_poll_cm_event`](crate::our_poll_cm_event)
/// fetch its events.
pub fn our_listener_with_channel(options: OurOptions) -> OurResult<OurControl> {
    let mut listener = OurControl::new(options);
    our_create_event_channel(&mut listener)?;
    our_listen(&mut listener, rdma_port_space::RDMA_PS_TCP)?;
    Ok(listener)
}

/// Sleeps until the next client asks for a connection. There is no queue pair yet; the request is to be
/// answered by [`our_accept`](crate::our_accept) or [`our_reject`].
pub fn our_next_request(listener: &OurControl) -> OurResult<OurControl> {
    Ok(our_agent(listener, our_get_request(listener)?))
}

/// An id for the next client that calls, with a queue pair and a protection domain of its own.
/// [`our_accept`](crate::our_accept) is next.
pub fn our_next_client(listener: &OurControl) -> OurResult<OurControl> {
    let mut conn = our_next_request(listener)?;
    our_setup_qp(&mut conn)?;
    Ok(conn)
}

/// The connection that a request asks for. There is no queue pair yet.
pub fn our_agent(listener: &OurControl, request: OurEvent) -> OurControl {
    let mut conn = OurControl::new(listener.options);
    conn.cm_id = request.cm_id;
    conn.peer_data = request.data;
    conn
}

/// Refuses the client's request, and tells it `private_data`.
pub fn our_reject(conn: &OurControl, private_data: &[u8]) -> OurResult {
    let (data, len) = (private_data.as_ptr().cast(), private_data.len() as u8);
    errno::set(0);
    // SAFETY: the id came with the request and is alive, and so are the data.
    let ret = unsafe { rdma_reject(conn.cm_id, data, len) };
    if ret != 0 { Err(failed("rdma_reject", ret, &conn.options)) } else { Ok(()) }
}

/// A queue pair for a client, on a protection domain and a completion queue that are the listener's. The
/// first call creates these, with room for so many clients. [`our_unsetup`](crate::our_unsetup) of a
/// client destroys its queue pair, and that of the listener what all of them use.
pub fn our_setup_shared_qp(
    listener: &mut OurControl,
    conn: &mut OurControl,
    clients: u32,
) -> OurResult {
    if listener.protection_domain.is_null() {
        our_setup_cq(listener, our_device(conn)?, clients)?;
    }
    our_create_qp_on(listener, conn, ptr::null_mut())
}
