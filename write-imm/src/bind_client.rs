//! The client's way to the server: address and route.

use std::ptr;

use common::addrinfo::AddrInfo;
use common::memory::zeroed;
use common::utilities::{OurResult, Reported};
use common::{errln, errno};
use rdma_sys::{rdma_cm_event_type, rdma_resolve_addr, rdma_resolve_route};

use crate::process_cm_events::our_await_cm_event;
use crate::prototypes::{OurControl, OurOptions};
use crate::utilities::our_report_error;

/// Finds the server's address, the local device that reaches it, and the route.
pub fn our_client_bind(client_conn: &mut OurControl, options: &OurOptions) -> OurResult {
    // get structure for the remote host on which the server resides
    let mut hints: libc::addrinfo = zeroed();
    hints.ai_family = libc::AF_INET;
    hints.ai_socktype = libc::SOCK_STREAM;
    let aptr = AddrInfo::get(Some(&options.server_name), Some(&options.server_port), &hints)
        .map_err(|error| {
            errln!(
                "{} getaddrinfo server_name {} port {}: {error}",
                options.message,
                options.server_name,
                options.server_port
            );
            Reported
        })?;

    errno::set(0);
    // SAFETY: the id is alive, and so is the address list; a null source means any.
    let ret = unsafe {
        rdma_resolve_addr(client_conn.cm_id, ptr::null_mut(), aptr.ai_addr().cast(), 2000)
    };
    if ret != 0 {
        our_report_error(ret, "rdma_resolve_addr", options);
        return Err(Reported);
    }

    // in this demo, rdma_resolve_addr() operates asynchronously
    let addr_resolved = rdma_cm_event_type::RDMA_CM_EVENT_ADDR_RESOLVED;
    our_await_cm_event(client_conn, addr_resolved, "rdma_resolve_addr", options)?;

    errno::set(0);
    // SAFETY: the id is alive and its address is resolved.
    let ret = unsafe { rdma_resolve_route(client_conn.cm_id, 2000) };
    if ret != 0 {
        our_report_error(ret, "rdma_resolve_route", options);
        return Err(Reported);
    }

    // in this demo, rdma_resolve_route() operates asynchronously
    let route_resolved = rdma_cm_event_type::RDMA_CM_EVENT_ROUTE_RESOLVED;
    our_await_cm_event(client_conn, route_resolved, "rdma_resolve_route", options)?;

    Ok(())
}
