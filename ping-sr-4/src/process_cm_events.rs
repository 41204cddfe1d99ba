//! Looks and waits for events of the connection manager.

use std::ptr;

use common::print::Pointer;
use common::utilities::{OurResult, Reported};
use common::verbs::event_str;
use common::{errln, errno};
use rdma_sys::{
    rdma_ack_cm_event, rdma_cm_event_type, rdma_cm_id, rdma_disconnect, rdma_get_cm_event,
};

use crate::prototypes::{OurConnectInfo, OurControl, OurOptions, TRACING, VERBOSE_TRACING};
use crate::utilities::{our_report_error, our_report_ptr, our_report_ulong, our_trace_ptr};

/// Gets the next event on the channel of this connection's id, or `None` if there is no event
/// yet (C: `EAGAIN`). The event has to be `this_event_type`. Gives the id that the event is
/// about, for a connection request a new one, and the private data that came with the request.
///
/// If the remote side has disconnected, so do we, whatever event the caller hopes for.
pub fn our_try_get_cm_event(
    conn: &mut OurControl,
    this_event_type: rdma_cm_event_type::Type,
    name: &str,
    options: &OurOptions,
) -> OurResult<Option<(*mut rdma_cm_id, OurConnectInfo)>> {
    let message = &options.message;
    // SAFETY: the id is alive, and it has a channel.
    let channel = unsafe { (*conn.cm_id).channel };

    let mut cm_event = ptr::null_mut();
    errno::set(0);
    // SAFETY: the channel lives as long as the id; the library writes the event's address.
    let ret = unsafe { rdma_get_cm_event(channel, &mut cm_event) };

    // the channel is now non-blocking, so just leave if no event found
    if ret != 0 {
        if errno::get() == libc::EAGAIN {
            return Ok(None);
        }
        our_report_error(ret, "rdma_get_cm_event", options);
        return Err(Reported);
    }
    // SAFETY: the event was got above and is acknowledged only at the end.
    let event = unsafe { &*cm_event };
    let (event_type, event_id) = (event.event, event.id);

    let mut ret = 0;
    if event_type == rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED && conn.disconnected == 0 {
        // remote side disconnected before local side, we need to do it here to force
        // "flushed" error on our local postings
        our_trace_ptr("our_try_get_cm_event", "disconnecting cm_id", conn.cm_id, options);
        conn.disconnected = 1;
        errno::set(0);
        // SAFETY: the id is alive.
        ret = unsafe { rdma_disconnect(conn.cm_id) };
        if ret == 0 {
            our_report_ptr("our_try_get_cm_event", "disconnected cm_id", conn.cm_id, options);
        } else if errno::get() != libc::EINVAL {
            our_report_error(ret, "rdma_disconnect", options);
        } else {
            ret = 0;
        }
    }

    let result = if event_type != this_event_type {
        errln!("{message}: {name} unexpected cm event {event_type} ({})", event_str(event_type));
        Err(Reported)
    } else if ret != 0 {
        Err(Reported)
    } else {
        if options.flags & TRACING != 0 {
            errln!(
                "{message}: {name} got cm event {event_type} ({}) cm_id {} our_control {} \
                 status {} disconnected {}",
                event_str(event_type),
                Pointer(event_id),
                Pointer(conn),
                event.status,
                conn.disconnected
            );
        }
        // SAFETY: in this port space each event has connection parameters, zero if it brings none.
        let private_data_len = unsafe { event.param.conn }.private_data_len;
        if options.flags & VERBOSE_TRACING != 0 {
            our_report_ulong(
                "rdma_get_cm_event",
                "private_data_len",
                private_data_len.into(),
                options,
            );
        }
        if event_type != rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST {
            Ok(Some((event_id, OurConnectInfo::default())))
        } else if usize::from(private_data_len) >= OurConnectInfo::LEN {
            // called by listener, pass back client's private data
            // SAFETY: the event has private data of at least this length.
            let private_data = unsafe { &*event.param.conn.private_data.cast() };
            Ok(Some((event_id, OurConnectInfo::from_private_data(private_data))))
        } else {
            our_report_ulong("private_data_len", "too small", private_data_len.into(), options);
            our_report_error(libc::EPROTO, "rdma_get_cm_event", options); // Protocol error
            Err(Reported)
        }
    };

    // all cm_events returned by rdma_get_cm_event() MUST be acknowledged
    // SAFETY: the event was got above, and nothing uses it any more.
    unsafe { rdma_ack_cm_event(cm_event) };
    result
}

/// Waits for the next event on the channel of this connection's id, which has to be
/// `this_event_type`; see [`our_try_get_cm_event`].
pub fn our_await_cm_event(
    conn: &mut OurControl,
    this_event_type: rdma_cm_event_type::Type,
    name: &str,
    options: &OurOptions,
) -> OurResult<(*mut rdma_cm_id, OurConnectInfo)> {
    if options.flags & TRACING != 0 {
        errln!(
            "{}: {name} awaiting next cm event {this_event_type} ({}) our_control {}",
            options.message,
            event_str(this_event_type),
            Pointer(conn)
        );
    }
    if options.flags & VERBOSE_TRACING != 0 {
        // SAFETY: the id is alive, and it has a channel.
        let channel = unsafe { (*conn.cm_id).channel };
        our_report_ptr("our_await_cm_event", "current cm_id -> channel", channel, options);
    }
    loop {
        if let Some(event) = our_try_get_cm_event(conn, this_event_type, name, options)? {
            return Ok(event);
        }
    }
}
