//! The connection manager's events. Each is acknowledged as soon as what it says is copied.

use std::ptr;

use common::utilities::{OurResult, Reported};
use common::verbs::event_str;
use common::{errln, errno};
use rdma_sys::{
    rdma_ack_cm_event, rdma_cm_event_type, rdma_cm_id, rdma_create_event_channel, rdma_get_cm_event,
};

use crate::connect::peer_data;
use crate::control::{OurControl, failed};

/// An event of the connection manager, which is acknowledged already.
#[derive(Clone, Debug)]
pub struct OurEvent {
    /// Its type.
    pub kind: rdma_cm_event_type::Type,
    /// The id that it is about; of a request a new one.
    pub cm_id: *mut rdma_cm_id,
    /// The private data that came with it; the connection manager adds zeros.
    pub data: Vec<u8>,
}

/// Gives the connection's ids an event channel: none of their calls waits.
pub(crate) fn our_create_event_channel(conn: &mut OurControl) -> OurResult {
    errno::set(0);
    // SAFETY: the library creates a channel, or returns null.
    conn.event_channel = unsafe { rdma_create_event_channel() };
    if conn.event_channel.is_null() {
        return Err(failed("rdma_create_event_channel", -1, &conn.options));
    }
    Ok(())
}

/// The next event of an id's channel. If there is none it waits, or gives none if the channel's descriptor
/// does not block.
fn our_event_at(conn: &OurControl, id: *mut rdma_cm_id) -> OurResult<Option<OurEvent>> {
    let mut event = ptr::null_mut();
    errno::set(0);
    // SAFETY: the id is one of the connection's, its channel lives as long, and the library writes the
    // event's address.
    let ret = unsafe { rdma_get_cm_event((*id).channel, &mut event) };
    if ret != 0 && errno::get() == libc::EAGAIN {
        return Ok(None);
    }
    if ret != 0 {
        return Err(failed("rdma_get_cm_event", ret, &conn.options));
    }
    // SAFETY: the event was got above and is acknowledged below.
    let (kind, cm_id) = unsafe { ((*event).event, (*event).id) };
    let data = peer_data(event);
    // SAFETY: it was got above, and nothing uses it any more.
    unsafe { rdma_ack_cm_event(event) };
    Ok(Some(OurEvent { kind, cm_id, data }))
}

/// The same where there has to be one.
fn our_event_of(conn: &OurControl, id: *mut rdma_cm_id) -> OurResult<OurEvent> {
    our_event_at(conn, id)?.ok_or_else(|| failed("rdma_get_cm_event", -1, &conn.options))
}

/// The same of that kind: any other is reported.
fn our_wanted(
    conn: &OurControl,
    event: OurEvent,
    wanted: rdma_cm_event_type::Type,
) -> OurResult<OurEvent> {
    if event.kind != wanted {
        let (got, wanted) = (event_str(event.kind), event_str(wanted));
        errln!("{}: got the event {got}, not {wanted}", conn.options.message);
        return Err(Reported);
    }
    Ok(event)
}

/// Sleeps until a client of the id that listens asks for a connection.
pub(crate) fn our_get_request(conn: &OurControl) -> OurResult<OurEvent> {
    let event = our_event_of(conn, conn.listen_id)?;
    our_wanted(conn, event, rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST)
}

/// Sleeps until there is an event: of a listener's clients, or of an id with an event channel.
pub fn our_get_cm_event(conn: &OurControl) -> OurResult<OurEvent> {
    our_event_of(conn, our_id(conn))
}

/// The same without sleeping: nothing if there is no event.
pub fn our_poll_cm_event(conn: &OurControl) -> OurResult<Option<OurEvent>> {
    // SAFETY: the id is alive, and its channel lives as long.
    let fd = unsafe { (*(*our_id(conn)).channel).fd };
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure is there.
    if unsafe { libc::poll(&mut poll, 1, 0) } > 0 {
        our_get_cm_event(conn).map(Some)
    } else {
        Ok(None)
    }
}

/// Takes the next event about the connection. If there is none it waits, or gives none if the channel's
/// descriptor does not block.
pub fn our_try_get_cm_event(conn: &OurControl) -> OurResult<Option<rdma_cm_event_type::Type>> {
    Ok(our_event_at(conn, conn.cm_id)?.map(|event| event.kind))
}

/// Sleeps until the connection manager has an event about the connection, which has to be `wanted`.
pub fn our_await_cm_event(conn: &OurControl, wanted: rdma_cm_event_type::Type) -> OurResult {
    let event = our_event_of(conn, conn.cm_id)?;
    our_wanted(conn, event, wanted).map(drop)
}

/// Sleeps until the peer has hung up.
pub fn our_await_disconnect(conn: &OurControl) -> OurResult {
    our_event_of(conn, conn.cm_id).map(drop)
}

fn our_id(conn: &OurControl) -> *mut rdma_cm_id {
    if conn.listen_id.is_null() { conn.cm_id } else { conn.listen_id }
}
