//! Creates and destroys the connection manager id.

use std::ptr;
use std::sync::Arc;

use common::errno;
use common::utilities::{OurResult, Reported};
use rdma_sys::{
    rdma_cm_id, rdma_create_event_channel, rdma_create_id, rdma_destroy_event_channel,
    rdma_destroy_id, rdma_migrate_id, rdma_port_space,
};

use crate::prototypes::{OurConnectInfo, OurControl, OurOptions};
use crate::utilities::{
    our_report_error, our_report_uint64, our_trace_ptr, our_trace_uint64, our_trace_ulong,
};

/// Creates a channel on which the connection manager reports events. Several ids can share one
/// channel. It has a file descriptor.
fn our_create_event_channel(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    // the lock, the condition variable and unlikely event types to begin with
    conn.cm_event_info = Arc::default();

    // now actually create the cm event channel
    errno::set(0);
    // SAFETY: the call has no preconditions.
    conn.cm_event_channel = unsafe { rdma_create_event_channel() };
    if conn.cm_event_channel.is_null() {
        our_report_error(libc::ENOMEM, "rdma_create_event_channel", options);
        return Err(Reported);
    }

    // report the new communication channel created by us and its fd
    our_trace_ptr(
        "rdma_create_event_channel",
        "created cm_event_channel",
        conn.cm_event_channel,
        options,
    );
    // SAFETY: the channel was created above.
    let fd = unsafe { (*conn.cm_event_channel).fd };
    our_trace_ulong("rdma_create_event_channel", "assigned fd", fd as u64, options);
    Ok(())
}

/// Destroys the event channel.
fn our_destroy_event_channel(conn: &mut OurControl, options: &OurOptions) {
    // SAFETY: the channel is alive, and an id on it that is still there is not used any more.
    unsafe { rdma_destroy_event_channel(conn.cm_event_channel) };
    our_trace_ptr(
        "rdma_destroy_event_channel",
        "destroyed event_channel",
        conn.cm_event_channel,
        options,
    );
}

/// Creates the id by which the connection manager knows this connection, and before that the
/// event channel for it.
///
/// Because of the channel almost every connection manager call on the id is asynchronous;
/// `rdma_get_cm_event` still blocks.
pub fn our_create_id(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    our_create_event_channel(conn, options)?;

    errno::set(0);
    let context = ptr::from_mut(conn).cast();
    // SAFETY: the channel is alive; the library writes the new id; it keeps `context`, but only
    // for us to read.
    let ret = unsafe {
        rdma_create_id(
            conn.cm_event_channel,
            &mut conn.cm_id,
            context,
            rdma_port_space::RDMA_PS_TCP,
        )
    };
    if ret != 0 {
        our_report_error(ret, "rdma_create_id", options);
        our_destroy_event_channel(conn, options);
        return Err(Reported);
    }
    our_trace_ptr("rdma_create_id", "created cm_id", conn.cm_id, options);
    Ok(())
}

/// There already is an id: migrates it to a channel of our own and makes this connection its
/// context. Called only by a new agent, whose limit and data size become those of the client.
pub fn our_migrate_id(
    conn: &mut OurControl,
    new_cm_id: *mut rdma_cm_id,
    connect_info: &OurConnectInfo,
    options: &mut OurOptions,
) -> OurResult {
    // replace agent's limit and data_size with values from connect_info
    our_trace_uint64("option", "count", options.limit, options);
    options.limit = connect_info.remote_limit;
    our_report_uint64("client", "count", options.limit, options);

    our_trace_uint64("option", "data_size", options.data_size, options);
    options.data_size = connect_info.remote_data_size;
    our_report_uint64("client", "data_size", options.data_size, options);

    // create our own channel
    our_create_event_channel(conn, options)?;

    errno::set(0);
    // SAFETY: id and channel are alive, and every event of the id is acknowledged.
    let ret = unsafe { rdma_migrate_id(new_cm_id, conn.cm_event_channel) };
    if ret != 0 {
        our_report_error(ret, "rdma_migrate_id", options);
        our_destroy_event_channel(conn, options);
        return Err(Reported);
    }
    conn.cm_id = new_cm_id;
    let context = ptr::from_mut(conn).cast();
    // SAFETY: the id came with a connection request and is ours to destroy, so it is alive.
    unsafe { (*new_cm_id).context = context };

    // report the id that was created for us
    our_trace_ptr("rdma_migrate_id", "migrated cm_id", conn.cm_id, options);
    Ok(())
}

/// Destroys the id, which cancels what is still going on with it, and the channel we created.
pub fn our_destroy_id(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    errno::set(0);
    // SAFETY: the id is alive, its queue pair is gone and every event is acknowledged.
    let ret = unsafe { rdma_destroy_id(conn.cm_id) };
    if ret != 0 {
        our_report_error(ret, "rdma_destroy_id", options);
    } else {
        our_trace_ptr("rdma_destroy_id", "destroyed cm_id", conn.cm_id, options);
    }
    our_destroy_event_channel(conn, options);
    if ret != 0 { Err(Reported) } else { Ok(()) }
}
