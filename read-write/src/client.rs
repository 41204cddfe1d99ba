//! The client: connects, exchanges messages with the server, and ends.

use std::process::{self, ExitCode};
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
    Common, Die, Mode, build_connection, build_params, destroy_connection, destroy_context, die,
    on_connect, send_mr, set_local_message, take_completions, test_nz, test_z,
};

/// How long address and route may take to resolve, in milliseconds.
const TIMEOUT_IN_MS: i32 = 500;

/// The client's main program.
pub fn main() -> ExitCode {
    let argv = args();
    let [_, mode, host, port] = argv.as_slice() else { return usage(&argv) };
    let Some(mode) = Mode::named(mode) else { return usage(&argv) };
    let mut common = Common::new(mode);
    match call(&mut common, host, port) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => die(reason),
    }
}

/// Asks for the way to the server. Each further step is taken when an event says that the one
/// before is done.
fn call(common: &mut Common, host: &str, port: &str) -> Result<(), Die> {
    // what getaddrinfo(3) takes where C gives no hints
    let mut hints: libc::addrinfo = zeroed();
    hints.ai_flags = libc::AI_V4MAPPED | libc::AI_ADDRCONFIG;
    let addr = AddrInfo::get(Some(host), Some(port), &hints)
        .map_err(|_| Die::non_zero("getaddrinfo(argv[2], argv[3], NULL, &addr)"))?;

    // SAFETY: the call has no preconditions.
    let ec = unsafe { rdma_create_event_channel() };
    test_z(ec, "ec = rdma_create_event_channel()")?;
    let mut conn = ptr::null_mut();
    // SAFETY: the channel is alive; the library writes the new id.
    let ret =
        unsafe { rdma_create_id(ec, &mut conn, ptr::null_mut(), rdma_port_space::RDMA_PS_TCP) };
    test_nz(ret, "rdma_create_id(ec, &conn, NULL, RDMA_PS_TCP)")?;
    // SAFETY: the id is alive, and so is the list with the address.
    let ret = unsafe { rdma_resolve_addr(conn, ptr::null_mut(), addr.ai_addr(), TIMEOUT_IN_MS) };
    test_nz(ret, "rdma_resolve_addr(conn, NULL, addr->ai_addr, TIMEOUT_IN_MS)")?;
    drop(addr);

    let mut event = ptr::null_mut();
    // SAFETY: the channel is alive; the library writes the event's address.
    while unsafe { rdma_get_cm_event(ec, &mut event) } == 0 {
        // SAFETY: the event was got above, and is acknowledged only below.
        let (event_type, id) = unsafe { ((*event).event, (*event).id) };
        // SAFETY: the event was got above and is not used any more.
        unsafe { rdma_ack_cm_event(event) };

        if on_event(common, event_type, id)? {
            break;
        }
    }

    destroy_context(common);
    // SAFETY: the channel is alive, and nobody waits for its events any more.
    unsafe { rdma_destroy_event_channel(ec) };
    Ok(())
}

/// The device that reaches the server is known: on it everything can be created.
fn on_addr_resolved(common: &mut Common, id: *mut rdma_cm_id) -> Result<(), Die> {
    outln!("address resolved.");

    build_connection(common, id)?;
    let text = format!("message from active/client side with pid {}", process::id());
    set_local_message(common, id, &text);
    // SAFETY: the id is alive and its address resolved.
    let ret = unsafe { rdma_resolve_route(id, TIMEOUT_IN_MS) };
    test_nz(ret, "rdma_resolve_route(id, TIMEOUT_IN_MS)")
}

/// The connection stands: the client begins, with its memory region.
fn on_connection(common: &Common, id: *mut rdma_cm_id) -> Result<(), Die> {
    on_connect(common, id)?;
    send_mr(common, id)
}

/// Either side has disconnected.
fn on_disconnect(common: &Common, id: *mut rdma_cm_id) -> Result<(), Die> {
    take_completions(common)?;
    outln!("disconnected.");

    destroy_connection(common, id);
    Ok(())
}

/// Takes the next step. True if that was the last.
fn on_event(
    common: &mut Common,
    event: rdma_cm_event_type::Type,
    id: *mut rdma_cm_id,
) -> Result<bool, Die> {
    match event {
        rdma_cm_event_type::RDMA_CM_EVENT_ADDR_RESOLVED => on_addr_resolved(common, id)?,
        rdma_cm_event_type::RDMA_CM_EVENT_ROUTE_RESOLVED => on_route_resolved(id)?,
        rdma_cm_event_type::RDMA_CM_EVENT_ESTABLISHED => on_connection(common, id)?,
        rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED => {
            on_disconnect(common, id)?;
            return Ok(true);
        }
        _ => {
            errln!("on_event: {event}");
            return Err(Die("on_event: unknown event.".to_owned()));
        }
    }
    Ok(false)
}

/// The way to the server is known, too.
fn on_route_resolved(id: *mut rdma_cm_id) -> Result<(), Die> {
    outln!("route resolved.");
    let mut cm_params = build_params();
    // SAFETY: the id is alive, its route is resolved and it has a queue pair.
    test_nz(unsafe { rdma_connect(id, &mut cm_params) }, "rdma_connect(id, &cm_params)")
}

fn usage(argv: &[String]) -> ExitCode {
    let argv0 = argv.first().map_or("", String::as_str);
    errln!("usage: {argv0} <mode> <server-address> <server-port>\n  mode = \"read\", \"write\"");
    ExitCode::FAILURE
}
