//! Client and server: from the address to the connection, and its end. Every call of the connection
//! manager is synchronous, as in ping-sr-0.

use std::ptr;

use common::addrinfo::AddrInfo;
use common::memory::zeroed;
use common::utilities::{OurResult, Reported};
use common::{errln, errno};
use rdma_sys::{
    rdma_accept, rdma_bind_addr, rdma_cm_event, rdma_cm_id, rdma_conn_param, rdma_connect,
    rdma_create_id, rdma_destroy_event_channel, rdma_destroy_id, rdma_disconnect, rdma_listen,
    rdma_port_space,
};

use crate::cm_events::our_get_request;
use crate::control::{OUR_ADDRESS, OUR_PORT, OurControl, OurOptions, failed};
use crate::queue_pair::{our_setup_qp, our_unsetup_qp};
use crate::stepwise::{our_begin_resolve_addr, our_begin_resolve_route};

/// Requests that may wait for a server.
const BACKLOG: i32 = 8;

/// Parameters of every connection of the lessons.
pub(crate) fn our_setup_conn_params(private_data: &[u8]) -> rdma_conn_param {
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

/// An id on the connection's event channel. Without one its calls are synchronous.
pub(crate) fn our_create_id(
    conn: &OurControl,
    ps: rdma_port_space::Type,
) -> OurResult<*mut rdma_cm_id> {
    let mut id = ptr::null_mut();
    errno::set(0);
    // SAFETY: the channel is alive, or null; the library writes the new id.
    let ret = unsafe { rdma_create_id(conn.event_channel, &mut id, ptr::null_mut(), ps) };
    if ret != 0 { Err(failed("rdma_create_id", ret, &conn.options)) } else { Ok(id) }
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
    let mut conn = our_resolve(rdma_port_space::RDMA_PS_TCP, options)?;
    our_setup_qp(&mut conn)?;
    Ok(conn)
}

/// A client's id with its address and route resolved.
pub(crate) fn our_resolve(ps: rdma_port_space::Type, options: OurOptions) -> OurResult<OurControl> {
    let mut conn = OurControl::new(options);
    conn.cm_id = our_create_id(&conn, ps)?;
    // without an event channel both wait
    our_begin_resolve_addr(&conn)?;
    our_begin_resolve_route(&conn)?;
    Ok(conn)
}

/// A server's id for the first client that calls, with its queue pair. Receives can be posted;
/// [`our_accept`] is next.
pub fn our_server(options: OurOptions) -> OurResult<OurControl> {
    let mut conn = OurControl::new(options);
    our_listen(&mut conn, rdma_port_space::RDMA_PS_TCP)?;
    our_await_request(&mut conn)?;
    our_setup_qp(&mut conn)?;
    Ok(conn)
}

/// Has a server's id listen, on the connection's event channel if that is there.
pub(crate) fn our_listen(conn: &mut OurControl, ps: rdma_port_space::Type) -> OurResult {
    let options = conn.options;
    conn.listen_id = our_create_id(conn, ps)?;
    let own = our_address(libc::AI_PASSIVE, &options)?;
    // SAFETY: the id is alive, and so is the address list.
    let ret = unsafe { rdma_bind_addr(conn.listen_id, own.ai_addr().cast()) };
    if ret != 0 {
        return Err(failed("rdma_bind_addr", ret, &options));
    }
    // SAFETY: the id is alive and bound.
    let ret = unsafe { rdma_listen(conn.listen_id, BACKLOG) };
    if ret != 0 { Err(failed("rdma_listen", ret, &options)) } else { Ok(()) }
}

/// Sleeps until a client calls, whose new id becomes that of the connection.
pub(crate) fn our_await_request(conn: &mut OurControl) -> OurResult {
    let request = our_get_request(conn)?;
    (conn.cm_id, conn.peer_data) = (request.cm_id, request.data);
    Ok(())
}

/// The private data of an event about a connection.
pub(crate) fn peer_data(event: *const rdma_cm_event) -> Vec<u8> {
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
