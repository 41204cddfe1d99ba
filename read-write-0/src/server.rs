//! The server: waits for clients, for ever.

use std::process;
use std::ptr;

use common::getopt::args;
use common::memory::zeroed;
use common::{errln, outln};
use rdma_sys::{
    rdma_accept, rdma_ack_cm_event, rdma_bind_addr, rdma_cm_event_type, rdma_cm_id,
    rdma_create_event_channel, rdma_create_id, rdma_destroy_event_channel, rdma_destroy_id,
    rdma_get_cm_event, rdma_get_src_port, rdma_listen, rdma_port_space,
};

use crate::rdma_common::{
    Mode, build_connection, build_params, destroy_connection, die, get_local_message_region,
    on_connect, set_mode, test_nz, test_z,
};

/// The server's main program: listens on any address and on a port that the connection manager
/// chooses, then handles what happens to the connections.
pub fn main() {
    let argv = args();
    let [_, mode] = argv.as_slice() else { usage(&argv) };

    let Some(mode) = Mode::named(mode) else { usage(&argv) };
    set_mode(mode);

    let mut addr: libc::sockaddr_in6 = zeroed();
    addr.sin6_family = libc::AF_INET6 as libc::sa_family_t;

    // SAFETY: the call has no preconditions.
    let ec = unsafe { rdma_create_event_channel() };
    test_z(ec, "ec = rdma_create_event_channel()");
    let mut listener = ptr::null_mut();
    // SAFETY: the channel is alive; the library writes the new id.
    let ret =
        unsafe { rdma_create_id(ec, &mut listener, ptr::null_mut(), rdma_port_space::RDMA_PS_TCP) };
    test_nz(ret, "rdma_create_id(ec, &listener, NULL, RDMA_PS_TCP)");
    // SAFETY: the id is alive, and so is the address, which has the length of its family.
    let ret = unsafe { rdma_bind_addr(listener, ptr::from_mut(&mut addr).cast()) };
    test_nz(ret, "rdma_bind_addr(listener, (struct sockaddr *)&addr)");
    // SAFETY: the id is alive; the backlog is arbitrary.
    test_nz(unsafe { rdma_listen(listener, 10) }, "rdma_listen(listener, 10)");

    // SAFETY: the id is alive.
    let port = u16::from_be(unsafe { rdma_get_src_port(listener) });
    outln!("listening on port {port}.");

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

    // SAFETY: the listener is alive, and its events are acknowledged.
    unsafe { rdma_destroy_id(listener) };
    // SAFETY: the channel is alive, and nobody waits for its events any more.
    unsafe { rdma_destroy_event_channel(ec) };
}

/// A client wants to connect, on an id of its own.
fn on_connect_request(id: *mut rdma_cm_id) -> bool {
    outln!("received connection request.");
    build_connection(id);
    let mut cm_params = build_params();
    let text = format!("message from passive/server side with pid {}\0", process::id());
    // SAFETY: the id is alive and has a connection, whose region has room for the text.
    unsafe {
        let region = get_local_message_region((*id).context);
        ptr::copy_nonoverlapping(text.as_ptr().cast(), region, text.len());
    }
    // SAFETY: the id came with the request and has a queue pair.
    test_nz(unsafe { rdma_accept(id, &mut cm_params) }, "rdma_accept(id, &cm_params)");

    false
}

/// The connection stands. What the client has sent by now can be answered.
fn on_connection(id: *mut rdma_cm_id) -> bool {
    // SAFETY: the id is alive and has a connection.
    unsafe { on_connect((*id).context) };

    false
}

/// The client has disconnected, or died.
fn on_disconnect(id: *mut rdma_cm_id) -> bool {
    outln!("peer disconnected.");

    // SAFETY: the id is alive and has a connection; FAULT 1: at which the poller may be.
    unsafe { destroy_connection((*id).context) };
    false
}

fn on_event(event: rdma_cm_event_type::Type, id: *mut rdma_cm_id) -> bool {
    match event {
        rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST => on_connect_request(id),
        rdma_cm_event_type::RDMA_CM_EVENT_ESTABLISHED => on_connection(id),
        rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED => on_disconnect(id),
        _ => die("on_event: unknown event."),
    }
}

fn usage(argv: &[String]) -> ! {
    let argv0 = argv.first().map_or("", String::as_str);
    errln!("usage: {argv0} <mode>\n  mode = \"read\", \"write\"");
    process::exit(1)
}
