//! The server: waits for clients, for ever.

use std::process::{self, ExitCode};
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
    Common, Die, Mode, build_connection, build_params, destroy_connection, destroy_context, die,
    on_connect, set_local_message, take_completions, test_nz, test_z,
};

/// The server's main program.
pub fn main() -> ExitCode {
    let argv = args();
    let [_, mode] = argv.as_slice() else { return usage(&argv) };
    let Some(mode) = Mode::named(mode) else { return usage(&argv) };
    let mut common = Common::new(mode);
    match serve(&mut common) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => die(reason),
    }
}

/// Listens on any address and on a port that the connection manager chooses, then handles what
/// happens to the connections.
fn serve(common: &mut Common) -> Result<(), Die> {
    let mut addr: libc::sockaddr_in6 = zeroed();
    addr.sin6_family = libc::AF_INET6 as libc::sa_family_t;

    // SAFETY: the call has no preconditions.
    let ec = unsafe { rdma_create_event_channel() };
    test_z(ec, "ec = rdma_create_event_channel()")?;
    let mut listener = ptr::null_mut();
    // SAFETY: the channel is alive; the library writes the new id.
    let ret =
        unsafe { rdma_create_id(ec, &mut listener, ptr::null_mut(), rdma_port_space::RDMA_PS_TCP) };
    test_nz(ret, "rdma_create_id(ec, &listener, NULL, RDMA_PS_TCP)")?;
    // SAFETY: the id is alive, and so is the address, which has the length of its family.
    let ret = unsafe { rdma_bind_addr(listener, ptr::from_mut(&mut addr).cast()) };
    test_nz(ret, "rdma_bind_addr(listener, (struct sockaddr *)&addr)")?;
    // SAFETY: the id is alive; the backlog is arbitrary.
    test_nz(unsafe { rdma_listen(listener, 10) }, "rdma_listen(listener, 10)")?;

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

        on_event(common, event_type, id)?;
    }

    // SAFETY: the listener is alive, and its events are acknowledged.
    unsafe { rdma_destroy_id(listener) };
    destroy_context(common);
    // SAFETY: the channel is alive, and nobody waits for its events any more.
    unsafe { rdma_destroy_event_channel(ec) };
    Ok(())
}

/// A client wants to connect, on an id of its own.
fn on_connect_request(common: &mut Common, id: *mut rdma_cm_id) -> Result<(), Die> {
    outln!("received connection request.");
    build_connection(common, id)?;
    let mut cm_params = build_params();
    let text = format!("message from passive/server side with pid {}", process::id());
    set_local_message(common, id, &text);
    // SAFETY: the id came with the request and has a queue pair.
    test_nz(unsafe { rdma_accept(id, &mut cm_params) }, "rdma_accept(id, &cm_params)")
}

/// The connection stands. What the client has sent by now can be answered.
fn on_connection(common: &Common, id: *mut rdma_cm_id) -> Result<(), Die> {
    on_connect(common, id)
}

/// The client has disconnected, or died.
fn on_disconnect(common: &Common, id: *mut rdma_cm_id) -> Result<(), Die> {
    take_completions(common)?;
    outln!("peer disconnected.");

    destroy_connection(common, id);
    Ok(())
}

fn on_event(
    common: &mut Common,
    event: rdma_cm_event_type::Type,
    id: *mut rdma_cm_id,
) -> Result<(), Die> {
    match event {
        rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST => on_connect_request(common, id),
        rdma_cm_event_type::RDMA_CM_EVENT_ESTABLISHED => on_connection(common, id),
        rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED => on_disconnect(common, id),
        _ => Err(Die("on_event: unknown event.".to_owned())),
    }
}

fn usage(argv: &[String]) -> ExitCode {
    let argv0 = argv.first().map_or("", String::as_str);
    errln!("usage: {argv0} <mode>\n  mode = \"read\", \"write\"");
    ExitCode::FAILURE
}
