//! Connecting step by step: calls that only begin their work, and the events that say that it is done.

use std::ptr;

use common::errno;
use common::utilities::OurResult;
use rdma_sys::{rdma_port_space, rdma_resolve_addr, rdma_resolve_route};

use crate::cm_events::our_create_event_channel;
use crate::connect::{our_address, our_create_id};
use crate::control::{OurControl, OurOptions, failed};
use crate::queue_pair::our_device;

/// Milliseconds for which an address or a route is looked for.
const TIMEOUT: i32 = 2000;

/// A client's id with an event channel of its own: none of its calls waits.
/// [`our_begin_resolve_addr`] is next.
pub fn our_client_id(options: OurOptions) -> OurResult<OurControl> {
    let mut conn = OurControl::new(options);
    our_create_event_channel(&mut conn)?;
    conn.cm_id = our_create_id(&conn, rdma_port_space::RDMA_PS_TCP)?;
    Ok(conn)
}

/// Begins to look for the device that reaches the server. Its event is `RDMA_CM_EVENT_ADDR_RESOLVED`.
pub fn our_begin_resolve_addr(conn: &OurControl) -> OurResult {
    let server = our_address(0, &conn.options)?;
    errno::set(0);
    // SAFETY: the id is alive, and so is the address list; a null source means any.
    let ret =
        unsafe { rdma_resolve_addr(conn.cm_id, ptr::null_mut(), server.ai_addr().cast(), TIMEOUT) };
    if ret != 0 { Err(failed("rdma_resolve_addr", ret, &conn.options)) } else { Ok(()) }
}

/// Begins to look for a route from there. Its event is `RDMA_CM_EVENT_ROUTE_RESOLVED`.
pub fn our_begin_resolve_route(conn: &OurControl) -> OurResult {
    our_device(conn)?;
    errno::set(0);
    // SAFETY: the id is alive.
    let ret = unsafe { rdma_resolve_route(conn.cm_id, TIMEOUT) };
    if ret != 0 { Err(failed("rdma_resolve_route", ret, &conn.options)) } else { Ok(()) }
}
