//! A server for more than one client: it listens, and takes the requests one by one.

use std::ptr;

use common::memory::zeroed;
use common::utilities::{OurResult, Reported};
use common::verbs::event_str;
use common::{errln, errno};
use rdma_sys::{
    ibv_alloc_pd, ibv_create_cq, ibv_qp_init_attr, ibv_qp_type, rdma_ack_cm_event, rdma_bind_addr,
    rdma_cm_event_type, rdma_cm_id, rdma_create_event_channel, rdma_create_id, rdma_create_qp,
    rdma_get_cm_event, rdma_listen, rdma_port_space, rdma_reject,
};

use crate::connect::{our_address, peer_data};
use crate::control::{OurControl, OurOptions, failed};
use crate::queue_pair::our_device;

/// Requests that may wait for the server.
const BACKLOG: i32 = 8;

/// An event of the connection manager, which is acknowledged already.
#[derive(Clone, Debug)]
pub struct OurEvent {
    /// What it is.
    pub kind: rdma_cm_event_type::Type,
    /// The id that it is about; of a request a new one.
    pub cm_id: *mut rdma_cm_id,
    /// The private data that came with it; the connection manager adds zeros.
    pub data: Vec<u8>,
}

/// A server's id that listens. The ids of its clients have channels of their own, so that their calls
/// wait. [`our_next_request`] is next.
pub fn our_listener(options: OurOptions) -> OurResult<OurControl> {
    let mut listener = OurControl::new(options);
    our_listen(&mut listener)?;
    Ok(listener)
}

/// The same with an event channel, which is the channel of all its clients, too: none of their calls
/// waits. [`our_get_cm_event`] and [`our_poll_cm_event`] fetch its events.
pub fn our_listener_with_channel(options: OurOptions) -> OurResult<OurControl> {
    let mut listener = OurControl::new(options);
    errno::set(0);
    // SAFETY: the library creates a channel, or returns null.
    listener.event_channel = unsafe { rdma_create_event_channel() };
    if listener.event_channel.is_null() {
        return Err(failed("rdma_create_event_channel", -1, &options));
    }
    our_listen(&mut listener)?;
    Ok(listener)
}

fn our_listen(listener: &mut OurControl) -> OurResult {
    let options = listener.options;
    let ps = rdma_port_space::RDMA_PS_TCP;
    errno::set(0);
    // SAFETY: the channel is alive, or null; the library writes the new id.
    let ret = unsafe {
        rdma_create_id(listener.event_channel, &mut listener.listen_id, ptr::null_mut(), ps)
    };
    if ret != 0 {
        return Err(failed("rdma_create_id", ret, &options));
    }
    let own = our_address(libc::AI_PASSIVE, &options)?;
    // SAFETY: the id is alive, and so is the address list.
    let ret = unsafe { rdma_bind_addr(listener.listen_id, own.ai_addr().cast()) };
    if ret != 0 {
        return Err(failed("rdma_bind_addr", ret, &options));
    }
    // SAFETY: the id is alive and bound.
    let ret = unsafe { rdma_listen(listener.listen_id, BACKLOG) };
    if ret != 0 { Err(failed("rdma_listen", ret, &options)) } else { Ok(()) }
}

/// Sleeps until the next client asks for a connection. There is no queue pair yet; the request is to be
/// answered by [`our_accept`](crate::our_accept) or [`our_reject`].
pub fn our_next_request(listener: &OurControl) -> OurResult<OurControl> {
    let event = our_get_cm_event(listener)?;
    if event.kind != rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST {
        errln!("{}: got the event {}", listener.options.message, event_str(event.kind));
        return Err(Reported);
    }
    Ok(our_agent(listener, event))
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

/// Sleeps until there is an event: of a listener's clients, or of an id with an event channel.
pub fn our_get_cm_event(conn: &OurControl) -> OurResult<OurEvent> {
    let mut event = ptr::null_mut();
    errno::set(0);
    // SAFETY: the id is alive, its channel lives as long, and the library writes the event's address.
    let ret = unsafe { rdma_get_cm_event((*our_id(conn)).channel, &mut event) };
    if ret != 0 {
        return Err(failed("rdma_get_cm_event", ret, &conn.options));
    }
    // SAFETY: the event was got above and is acknowledged below.
    let (kind, cm_id) = unsafe { ((*event).event, (*event).id) };
    let data = peer_data(event);
    // SAFETY: it was got above, and nothing uses it any more.
    unsafe { rdma_ack_cm_event(event) };
    Ok(OurEvent { kind, cm_id, data })
}

/// The same without sleeping: nothing if there is no event.
pub fn our_poll_cm_event(conn: &OurControl) -> OurResult<Option<OurEvent>> {
    // SAFETY: the id is alive, and its channel lives as long.
    let fd = unsafe { (*(*our_id(conn)).channel).fd };
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure is there.
    if unsafe { libc::poll(&mut poll, 1, 0) } > 0 {
        our_get_cm_event(conn).map(Some)
    } else {
        Ok(None)
    }
}

fn our_id(conn: &OurControl) -> *mut rdma_cm_id {
    if conn.listen_id.is_null() { conn.cm_id } else { conn.listen_id }
}

/// A queue pair for a client, on a protection domain and a completion queue that are the listener's. The
/// first call creates these, with room for so many clients. [`our_unsetup`](crate::our_unsetup) of a
/// client destroys its queue pair, and that of the listener what all of them use.
pub fn our_setup_shared_qp(
    listener: &mut OurControl,
    conn: &mut OurControl,
    clients: u32,
) -> OurResult {
    let options = listener.options;
    let verbs = our_device(conn)?;
    errno::set(0);
    if listener.protection_domain.is_null() {
        // SAFETY: the context lives as long as the ids.
        listener.protection_domain = unsafe { ibv_alloc_pd(verbs) };
    }
    if listener.completion_queue.is_null() {
        let cqe = (clients * (options.send_queue_depth + options.recv_queue_depth)) as i32;
        // SAFETY: the context is alive; without a channel nobody wants events.
        listener.completion_queue =
            unsafe { ibv_create_cq(verbs, cqe, ptr::null_mut(), ptr::null_mut(), 0) };
    }
    if listener.protection_domain.is_null() || listener.completion_queue.is_null() {
        return Err(failed("ibv_create_cq", libc::ENOMEM, &options));
    }
    let mut init_attr: ibv_qp_init_attr = zeroed();
    init_attr.send_cq = listener.completion_queue;
    init_attr.recv_cq = listener.completion_queue;
    init_attr.cap.max_send_wr = options.send_queue_depth;
    init_attr.cap.max_recv_wr = options.recv_queue_depth;
    init_attr.cap.max_send_sge = options.max_send_sge;
    init_attr.cap.max_recv_sge = options.max_recv_sge;
    init_attr.qp_type = ibv_qp_type::IBV_QPT_RC;
    // SAFETY: id, protection domain and completion queue are alive and belong to one device.
    let ret = unsafe { rdma_create_qp(conn.cm_id, listener.protection_domain, &mut init_attr) };
    if ret != 0 {
        return Err(failed("rdma_create_qp", ret, &options));
    }
    // SAFETY: the id is alive.
    conn.queue_pair = unsafe { (*conn.cm_id).qp };
    Ok(())
}
