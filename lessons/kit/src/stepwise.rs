//! Connecting step by step: calls that only begin their work, and the events that say that it is done.

use std::ptr;

use common::utilities::{OurResult, Reported};
use common::verbs::event_str;
use common::{errln, errno};
use rdma_sys::{
    rdma_ack_cm_event, rdma_cm_event_type, rdma_create_event_channel, rdma_create_id,
    rdma_get_cm_event, rdma_port_space, rdma_resolve_addr, rdma_resolve_route,
};

use crate::connect::our_address;
use crate::control::{OurControl, OurOptions, failed};
use crate::queue_pair::our_device;

/// Milliseconds for which an address or a route is looked for.
const TIMEOUT: i32 = 2000;

/// A client's id with an event channel of its own: none of its calls waits.
/// [`our_begin_resolve_addr`] is next.
pub fn our_client_id(options: OurOptions) -> OurResult<OurControl> {
    let mut conn = OurControl::new(options);
    errno::set(0);
    // SAFETY: the library creates a channel, or returns null.
    conn.event_channel = unsafe { rdma_create_event_channel() };
    if conn.event_channel.is_null() {
        return Err(failed("rdma_create_event_channel", -1, &options));
    }
    let ps = rdma_port_space::RDMA_PS_TCP;
    // SAFETY: the channel is alive, and the library writes the new id.
    let ret = unsafe { rdma_create_id(conn.event_channel, &mut conn.cm_id, ptr::null_mut(), ps) };
    if ret != 0 { Err(failed("rdma_create_id", ret, &options)) } else { Ok(conn) }
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

/// Sleeps until the connection manager has an event, which has to be `wanted`, and acknowledges it.
pub fn our_await_cm_event(conn: &OurControl, wanted: rdma_cm_event_type::Type) -> OurResult {
    let mut event = ptr::null_mut();
    errno::set(0);
    // SAFETY: the channel is alive; the library writes the event's address.
    let ret = unsafe { rdma_get_cm_event(conn.event_channel, &mut event) };
    if ret != 0 {
        return Err(failed("rdma_get_cm_event", ret, &conn.options));
    }
    // SAFETY: the event was got above and is acknowledged below.
    let kind = unsafe { (*event).event };
    // SAFETY: it was got above, and nothing uses it any more.
    unsafe { rdma_ack_cm_event(event) };
    if kind != wanted {
        let (got, wanted) = (event_str(kind), event_str(wanted));
        errln!("{}: got the event {got}, not {wanted}", conn.options.message);
        return Err(Reported);
    }
    Ok(())
}
