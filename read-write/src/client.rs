//! The client: connects, exchanges messages with the server, and ends.

use std::process;
use std::ptr;

use common::addrinfo::AddrInfo;
use common::getopt::args;
use common::memory::zeroed;
use common::{errln, outln};
use rdma_sys::{
    rdma_ack_cm_event, rdma_cm_event_type, rdma_cm_id, rdma_connect, rdma_create_event_channel,
    rdma_create_id, rdma_destroy_event_channel, rdma_get_cm_event, rdma_port_space,
    rdma_resolve_addr, rdma_resolve_route,
};

use crate::rdma_common::{
    Mode, build_connection, build_params, destroy_connection, destroy_context, die,
    get_local_message_region, on_connect, send_mr, set_mode, take_completions, test_nz, test_z,
};

/// How long address and route may take to resolve, in milliseconds.
const TIMEOUT_IN_MS: i32 = 500;

/// The client's main program: asks for the way to the server. Each further step is taken when an
/// event says that the one before is done.
pub fn main() {
    let argv = args();
    let [_, mode, host, port] = argv.as_slice() else { usage(&argv) };

    let Some(mode) = Mode::named(mode) else { usage(&argv) };
    set_mode(mode);

    // the hints that getaddrinfo(3) takes where C gives none
    let mut hints: libc::addrinfo = zeroed();
    hints.ai_flags = libc::AI_V4MAPPED | libc::AI_ADDRCONFIG;
    let Ok(addr) = AddrInfo::get(Some(host), Some(port), &hints) else {
        die("error: getaddrinfo(argv[2], argv[3], NULL, &addr) failed (returned non-zero).")
    };

    // SAFETY: the call has no preconditions.
    let ec = unsafe { rdma_create_event_channel() };
    test_z(ec, "ec = rdma_create_event_channel()");
    let mut conn = ptr::null_mut();
    // SAFETY: the channel is alive; the library writes the new id.
    let ret =
        unsafe { rdma_create_id(ec, &mut conn, ptr::null_mut(), rdma_port_space::RDMA_PS_TCP) };
    test_nz(ret, "rdma_create_id(ec, &conn, NULL, RDMA_PS_TCP)");
    // SAFETY: the id is alive, and so is the list with the address.
    let ret = unsafe { rdma_resolve_addr(conn, ptr::null_mut(), addr.ai_addr(), TIMEOUT_IN_MS) };
    test_nz(ret, "rdma_resolve_addr(conn, NULL, addr->ai_addr, TIMEOUT_IN_MS)");
    drop(addr);

    let mut event = ptr::null_mut();
    // SAFETY: the channel is alive; the library writes the event's address.
    while unsafe { rdma_get_cm_event(ec, &mut event) } == 0 {
        // SAFETY: the event was got above, and is acknowledged only below.
        let (event_type, id) = unsafe { ((*event).event, (*event).id) };
        // SAFETY: the event was got above and is not used any more.
        unsafe { rdma_ack_cm_event(event) };

        if on_event(event_type, id) {
            break;
        }
    }

    destroy_context();
    // SAFETY: the channel is alive, and nobody waits for its events any more.
    unsafe { rdma_destroy_event_channel(ec) };
}

/// The device that reaches the server is known: on it everything can be created.
fn on_addr_resolved(id: *mut rdma_cm_id) -> bool {
    outln!("address resolved.");

    build_connection(id);
    let text = format!("message from active/client side with pid {}\0", process::id());
    // SAFETY: the id is alive and has a connection, whose region has room for the text.
    unsafe {
        let region = get_local_message_region((*id).context);
        ptr::copy_nonoverlapping(text.as_ptr().cast(), region, text.len());
    }
    // SAFETY: the id is alive and its address resolved.
    let ret = unsafe { rdma_resolve_route(id, TIMEOUT_IN_MS) };
    test_nz(ret, "rdma_resolve_route(id, TIMEOUT_IN_MS)");

    false
}

/// The connection stands: the client begins, with its memory region.
fn on_connection(id: *mut rdma_cm_id) -> bool {
    // SAFETY: the id is alive and has a connection.
    unsafe {
        on_connect((*id).context);
        send_mr((*id).context);
    }

    false
}

/// Either side has disconnected.
fn on_disconnect(id: *mut rdma_cm_id) -> bool {
    take_completions();
    outln!("disconnected.");

    // SAFETY: the id is alive and has a connection, which the poller lets go.
    unsafe { destroy_connection((*id).context) };
    true // exit event loop
}

/// Takes the next step. True if that was the last.
fn on_event(event: rdma_cm_event_type::Type, id: *mut rdma_cm_id) -> bool {
    match event {
        rdma_cm_event_type::RDMA_CM_EVENT_ADDR_RESOLVED => on_addr_resolved(id),
        rdma_cm_event_type::RDMA_CM_EVENT_ROUTE_RESOLVED => on_route_resolved(id),
        rdma_cm_event_type::RDMA_CM_EVENT_ESTABLISHED => on_connection(id),
        rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED => on_disconnect(id),
        _ => {
            errln!("on_event: {event}");
            die("on_event: unknown event.")
        }
    }
}

/// The way to the server is known, too.
fn on_route_resolved(id: *mut rdma_cm_id) -> bool {
    outln!("route resolved.");
    let mut cm_params = build_params();
    // SAFETY: the id is alive, its route is resolved and it has a queue pair.
    test_nz(unsafe { rdma_connect(id, &mut cm_params) }, "rdma_connect(id, &cm_params)");

    false
}

fn usage(argv: &[String]) -> ! {
    let argv0 = argv.first().map_or("", String::as_str);
    errln!("usage: {argv0} <mode> <server-address> <server-port>\n  mode = \"read\", \"write\"");
    process::exit(1)
}
