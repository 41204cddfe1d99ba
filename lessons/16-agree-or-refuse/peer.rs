//! Two clients, one after the other. The messages of the first fit, but are more than the server
//! has room for; those of the second are too long. In the second run the clients come in the other
//! order, and the messages that fit are few and of the greatest length allowed.

use std::process::ExitCode;

use common::utilities::{OurResult, Reported, exit_code};
use common::{errln, outln};
use kit::{
    OurControl, OurEvent, OurOptions, our_await_cm_event, our_await_completion,
    our_begin_resolve_addr, our_begin_resolve_route, our_buffer, our_client_id, our_connect,
    our_dereg_mr, our_disconnect, our_get_cm_event, our_is_again, our_post_send, our_reg_mr,
    our_setup_qp, our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, rdma_cm_event_type};

/// The number of messages for which the server has room, as the task says.
const ROOM: u32 = 8;
/// The greatest length of a message in bytes, as the task says.
const SIZE: u32 = 1024;
/// Bytes of the messages that do not fit. Read in the wrong byte order they are 256.
const TOO_LONG: u32 = 65536;

/// Asks for a connection, and gives what came as the answer.
fn our_ask(count: u32, size: u32) -> OurResult<(OurControl, OurEvent)> {
    let mut conn = our_client_id(OurOptions { message: "peer", ..OurOptions::default() })?;
    our_begin_resolve_addr(&conn)?;
    our_await_cm_event(&conn, rdma_cm_event_type::RDMA_CM_EVENT_ADDR_RESOLVED)?;
    our_begin_resolve_route(&conn)?;
    our_await_cm_event(&conn, rdma_cm_event_type::RDMA_CM_EVENT_ROUTE_RESOLVED)?;
    our_setup_qp(&mut conn)?;
    our_connect(&mut conn, &[count.to_be_bytes(), size.to_be_bytes()].concat())?;
    let event = our_get_cm_event(&conn)?;
    Ok((conn, event))
}

/// The number that an answer begins with.
fn our_number(event: &OurEvent) -> u32 {
    event.data.first_chunk().map_or(0, |four| u32::from_be_bytes(*four))
}

fn is_established(event: &OurEvent) -> bool {
    event.kind == rdma_cm_event_type::RDMA_CM_EVENT_ESTABLISHED
}

/// Sends so many messages, one after the other.
fn our_send(conn: &OurControl, count: u32, size: u32) -> OurResult {
    let buffer = our_buffer(conn, size as usize)?;
    let mr = our_reg_mr(conn, &buffer, ibv_access_flags(0))?;
    for _ in 0..count {
        our_post_send(conn, &mut our_setup_send_wr(&mut [our_setup_sge(&buffer, mr)]))?;
        our_await_completion(conn)?;
    }
    our_dereg_mr(conn, mr)
}

fn our_hang_up(conn: &mut OurControl) -> OurResult {
    our_disconnect(conn)?;
    our_await_cm_event(conn, rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED)
}

/// Plays the client whose messages fit. True if it is accepted.
fn our_fitting() -> OurResult<bool> {
    let (count, size) = match our_is_again() {
        // other numbers in every run
        false => (100 + std::process::id() % 100, 100 + std::process::id() % 50),
        true => (3, SIZE),
    };
    let (mut conn, event) = our_ask(count, size)?;
    if is_established(&event) {
        let given = our_number(&event);
        if given < count.min(ROOM) || given > count {
            errln!("peer: wants to send {count} messages, and is told that it may send {given}");
            return Err(Reported);
        }
        outln!("{given} of {count} messages are welcome");
        our_send(&conn, given, size)?;
        our_hang_up(&mut conn)?;
    }
    our_unsetup(&mut conn)?;
    Ok(is_established(&event))
}

fn our_too_long() -> OurResult {
    let (mut conn, event) = our_ask(1, TOO_LONG)?;
    let fits = our_number(&event);
    if is_established(&event) {
        our_hang_up(&mut conn)?;
    }
    our_unsetup(&mut conn)?;
    if is_established(&event) {
        errln!("peer: {TOO_LONG} bytes have been agreed to");
        return Err(Reported);
    }
    if fits == 0 || fits >= TOO_LONG {
        errln!("peer: {TOO_LONG} bytes were too long, and {fits} are said to fit");
        return Err(Reported);
    }
    outln!("{TOO_LONG} bytes are too long, and {fits} fit");
    Ok(())
}

fn run() -> OurResult {
    let is_accepted = match our_is_again() {
        false => our_fitting().and_then(|is_accepted| our_too_long().map(|()| is_accepted)),
        true => our_too_long().and_then(|()| our_fitting()),
    }?;
    if !is_accepted {
        errln!("peer: was refused, though its messages fit");
        return Err(Reported);
    }
    Ok(())
}

pub fn main() -> ExitCode {
    exit_code(run())
}
