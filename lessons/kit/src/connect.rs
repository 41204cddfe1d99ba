//! Client and server: from the address to the connection, and its end. Every call of the connection
//! manager is synchronous, as in ping-sr-0.

use std::ptr;

use common::addrinfo::AddrInfo;
use common::memory::zeroed;
use common::utilities::{OurResult, Reported};
use common::verbs::event_str;
use common::{errln, errno};
use rdma_sys::{
    rdma_accept, rdma_ack_cm_event, rdma_bind_addr, rdma_cm_event, rdma_cm_event_type, rdma_cm_id,
    rdma_conn_param, rdma_connect, rdma_create_id, rdma_destroy_event_channel, rdma_destroy_id,
    rdma_disconnect, rdma_get_cm_event, rdma_listen, rdma_port_space, rdma_resolve_addr,
    rdma_resolve_route,
};

use crate::control::{OUR_ADDRESS, OUR_PORT, OurControl, OurOptions, failed};
use crate::queue_pair::{our_setup_qp, our_unsetup_qp};

/// What every connection of the lessons is like.
fn our_setup_conn_params(private_data: &[u8]) -> rdma_conn_param {
    let mut params: rdma_conn_param = zeroed();
    params.private_data = private_data.as_ptr().cast();
    params.private_data_len = private_data.len() as u8;
    params.responder_resources = 2;
    params.initiator_depth = 2;
    params.retry_count = 5;
    // a message that finds no receive is sent again so often, and then fails
    params.rnr_retry_count = 5;
    params
}

fn our_create_id(options: &OurOptions) -> OurResult<*mut rdma_cm_id> {
    let mut id = ptr::null_mut();
    errno::set(0);
    let ps = rdma_port_space::RDMA_PS_TCP;
    // SAFETY: the library writes the new id. Without a channel of ours its calls are synchronous.
    let ret = unsafe { rdma_create_id(ptr::null_mut(), &mut id, ptr::null_mut(), ps) };
    if ret != 0 { Err(failed("rdma_create_id", ret, options)) } else { Ok(id) }
}

pub(crate) fn our_address(flags: i32, options: &OurOptions) -> OurResult<AddrInfo> {
    let mut hints: libc::addrinfo = zeroed();
    hints.ai_family = libc::AF_INET;
    hints.ai_socktype = libc::SOCK_STREAM;
    hints.ai_flags = flags;
    AddrInfo::get(Some(OUR_ADDRESS), Some(OUR_PORT), &hints).map_err(|error| {
        errln!("{}: getaddrinfo {OUR_ADDRESS}: {error}", options.message);
        Reported
    })
}

/// A client's id with its address and route resolved, and its queue pair. Receives can be posted;
/// [`our_connect`] is next.
pub fn our_client(options: OurOptions) -> OurResult<OurControl> {
    let mut conn = OurControl::new(options);
    conn.cm_id = our_create_id(&options)?;
    let server = our_address(0, &options)?;
    // SAFETY: the id is alive, and so is the address list; a null source means any.
    let ret =
        unsafe { rdma_resolve_addr(conn.cm_id, ptr::null_mut(), server.ai_addr().cast(), 2000) };
    if ret != 0 {
        return Err(failed("rdma_resolve_addr", ret, &options));
    }
    // SAFETY: the id is alive and its address is resolved.
    let ret = unsafe { rdma_resolve_route(conn.cm_id, 2000) };
    if ret != 0 {
        return Err(failed("rdma_resolve_route", ret, &options));
    }
    our_setup_qp(&mut conn)?;
    Ok(conn)
}

/// A server's id for the first client that calls, with its queue pair. Receives can be posted;
/// [`our_accept`] is next.
pub fn our_server(options: OurOptions) -> OurResult<OurControl> {
    let mut conn = OurControl::new(options);
    conn.listen_id = our_create_id(&options)?;
    our_await_request(conn)
}

/// Listens with the id that is there for it, until the first client calls.
pub(crate) fn our_await_request(mut conn: OurControl) -> OurResult<OurControl> {
    let options = conn.options;
    let own = our_address(libc::AI_PASSIVE, &options)?;
    // SAFETY: the id is alive, and so is the address list.
    let ret = unsafe { rdma_bind_addr(conn.listen_id, own.ai_addr().cast()) };
    if ret != 0 {
        return Err(failed("rdma_bind_addr", ret, &options));
    }
    // SAFETY: the id is alive and bound.
    let ret = unsafe { rdma_listen(conn.listen_id, 1) };
    if ret != 0 {
        return Err(failed("rdma_listen", ret, &options));
    }
    let mut event = ptr::null_mut();
    // SAFETY: the id has a channel, which lives as long; the library writes the event's address.
    let ret = unsafe { rdma_get_cm_event((*conn.listen_id).channel, &mut event) };
    if ret != 0 {
        return Err(failed("rdma_get_cm_event", ret, &options));
    }
    // SAFETY: the event was got above and is acknowledged below.
    let (kind, id) = unsafe { ((*event).event, (*event).id) };
    conn.peer_data = peer_data(event);
    // SAFETY: it was got above, and nothing uses it any more.
    unsafe { rdma_ack_cm_event(event) };
    if kind != rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST {
        errln!("{}: got the event {}", options.message, event_str(kind));
        return Err(Reported);
    }
    conn.cm_id = id;
    our_setup_qp(&mut conn)?;
    Ok(conn)
}

/// The private data of an event about a connection.
fn peer_data(event: *const rdma_cm_event) -> Vec<u8> {
    if event.is_null() {
        return Vec::new();
    }
    // SAFETY: the event is not acknowledged yet, and one about a connection has these parameters.
    let params = unsafe { (*event).param.conn };
    if params.private_data.is_null() {
        return Vec::new();
    }
    let len = params.private_data_len.into();
    // SAFETY: so many bytes are there as long as the event is.
    unsafe { std::slice::from_raw_parts(params.private_data.cast::<u8>(), len) }.to_vec()
}

/// Connects to the server, and tells it `private_data`.
pub fn our_connect(conn: &mut OurControl, private_data: &[u8]) -> OurResult {
    let mut params = our_setup_conn_params(private_data);
    errno::set(0);
    // SAFETY: the id is alive, its route is resolved and it has a queue pair.
    let ret = unsafe { rdma_connect(conn.cm_id, &mut params) };
    if ret != 0 {
        return Err(failed("rdma_connect", ret, &conn.options));
    }
    // SAFETY: a synchronous call leaves its event with the id until the next call.
    conn.peer_data = peer_data(unsafe { (*conn.cm_id).event });
    Ok(())
}

/// Accepts the client's request, and tells it `private_data`.
pub fn our_accept(conn: &mut OurControl, private_data: &[u8]) -> OurResult {
    let mut params = our_setup_conn_params(private_data);
    errno::set(0);
    // SAFETY: the id came with the request, is alive and has a queue pair.
    let ret = unsafe { rdma_accept(conn.cm_id, &mut params) };
    if ret != 0 { Err(failed("rdma_accept", ret, &conn.options)) } else { Ok(()) }
}

/// Sleeps until the peer has hung up.
pub fn our_await_disconnect(conn: &OurControl) -> OurResult {
    let mut event = ptr::null_mut();
    errno::set(0);
    // SAFETY: a synchronous id has a channel, which lives as long; the library writes the event's address.
    let ret = unsafe { rdma_get_cm_event((*conn.cm_id).channel, &mut event) };
    if ret != 0 {
        return Err(failed("rdma_get_cm_event", ret, &conn.options));
    }
    // SAFETY: it was got above, and nothing uses it any more.
    unsafe { rdma_ack_cm_event(event) };
    Ok(())
}

/// Disconnects, unless the peer has done so.
pub fn our_disconnect(conn: &mut OurControl) -> OurResult {
    errno::set(0);
    // SAFETY: the id is alive.
    let ret = unsafe { rdma_disconnect(conn.cm_id) };
    if ret != 0 && errno::get() != libc::EINVAL {
        return Err(failed("rdma_disconnect", ret, &conn.options));
    }
    Ok(())
}

/// Destroys all that [`our_client`], [`our_server`], [`our_client_id`](crate::our_client_id) or one of
/// [`channels`](crate::channels) has created. Regions have to be deregistered before.
pub fn our_unsetup(conn: &mut OurControl) -> OurResult {
    our_unsetup_qp(conn)?;
    for id in [conn.cm_id, conn.listen_id] {
        if !id.is_null() {
            // SAFETY: the id is alive, its queue pair is gone and every event is acknowledged.
            let ret = unsafe { rdma_destroy_id(id) };
            if ret != 0 {
                return Err(failed("rdma_destroy_id", ret, &conn.options));
            }
        }
    }
    if !conn.event_channel.is_null() {
        // SAFETY: the channel is alive, and no id uses it any more.
        unsafe { rdma_destroy_event_channel(conn.event_channel) };
    }
    Ok(())
}
