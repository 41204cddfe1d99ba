//! Unreliable datagrams by the connection manager: the client asks where the server's queue pair is, and
//! there is no connection afterwards.
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "address handles are the library's own pointers, as regions are in `memory`"
)]

use std::ptr;

use common::errno;
use common::utilities::OurResult;
use rdma_sys::{
    ibv_ah, ibv_ah_attr, ibv_create_ah, ibv_destroy_ah, ibv_qp_type, rdma_connect, rdma_port_space,
    rdma_ud_param,
};

use crate::connect::{our_await_request, our_listen, our_resolve, our_setup_conn_params};
use crate::control::{OurControl, OurOptions, failed};
use crate::queue_pair::{our_create_qp, our_device, our_setup_cq};

/// A client's id with its address and route resolved, and a queue pair for datagrams. Receives can be
/// posted; [`our_ask`] is next.
pub fn our_datagram_client(options: OurOptions) -> OurResult<OurControl> {
    let mut conn = our_resolve(rdma_port_space::RDMA_PS_UDP, options)?;
    our_setup_datagrams(&mut conn)?;
    Ok(conn)
}

/// A server's id for the first client that asks, with a queue pair for datagrams. Receives can be posted;
/// [`our_accept`](crate::our_accept) is next, and tells the client where to send.
pub fn our_datagram_server(options: OurOptions) -> OurResult<OurControl> {
    let mut conn = OurControl::new(options);
    our_listen(&mut conn, rdma_port_space::RDMA_PS_UDP)?;
    our_await_request(&mut conn)?;
    our_setup_datagrams(&mut conn)?;
    Ok(conn)
}

/// The library brings such a queue pair to RTS at once: it has no peer to know.
fn our_setup_datagrams(conn: &mut OurControl) -> OurResult {
    our_setup_cq(conn, our_device(conn)?, 1)?;
    our_create_qp(conn, ibv_qp_type::IBV_QPT_UD, ptr::null_mut())
}

/// Asks the server where to send: address, number of the queue pair and Q_Key.
pub fn our_ask(conn: &mut OurControl) -> OurResult<rdma_ud_param> {
    let mut params = our_setup_conn_params(&[]);
    errno::set(0);
    // SAFETY: the id is alive, its route is resolved and it has a queue pair.
    let ret = unsafe { rdma_connect(conn.cm_id, &mut params) };
    if ret != 0 {
        return Err(failed("rdma_connect", ret, &conn.options));
    }
    // SAFETY: a synchronous call that succeeds leaves its event with the id until the next call, and an
    // answer to this question has these parameters.
    Ok(unsafe { (*(*conn.cm_id).event).param.ud })
}

/// An address handle: what each send has to say of the way to its receiver.
pub fn our_create_ah(conn: &OurControl, attr: &mut ibv_ah_attr) -> OurResult<*mut ibv_ah> {
    errno::set(0);
    // SAFETY: the protection domain is alive.
    let ah = unsafe { ibv_create_ah(conn.protection_domain, attr) };
    if ah.is_null() {
        return Err(failed("ibv_create_ah", libc::ENOMEM, &conn.options));
    }
    Ok(ah)
}

/// Destroys an address handle. Every send that uses it has to be done.
pub fn our_destroy_ah(conn: &OurControl, ah: *mut ibv_ah) -> OurResult {
    // SAFETY: the caller has it from the library and does not use it again.
    let ret = unsafe { ibv_destroy_ah(ah) };
    if ret != 0 { Err(failed("ibv_destroy_ah", ret, &conn.options)) } else { Ok(()) }
}
