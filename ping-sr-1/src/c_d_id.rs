//! Creates and destroys the connection manager id.

use std::ptr;

use common::errno;
use common::utilities::{OurResult, Reported};
use rdma_sys::{rdma_cm_id, rdma_create_id, rdma_destroy_id, rdma_port_space};

use crate::prototypes::{OurConnectInfo, OurControl, OurOptions};
use crate::utilities::{
    our_report_error, our_report_uint64, our_trace_ptr, our_trace_uint64, our_trace_ulong,
};

/// Creates the id by which the connection manager knows this connection.
///
/// There is no event channel of our own, so the library creates one for the id, and every
/// connection manager call on it is synchronous.
pub fn our_create_id(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    errno::set(0);
    let context = ptr::from_mut(conn).cast();
    // SAFETY: the library writes the new id; it keeps `context`, but only for us to read.
    let ret = unsafe {
        rdma_create_id(ptr::null_mut(), &mut conn.cm_id, context, rdma_port_space::RDMA_PS_TCP)
    };
    if ret != 0 {
        our_report_error(ret, "rdma_create_id", options);
        return Err(Reported);
    }
    our_trace_ptr("rdma_create_id", "created cm_id", conn.cm_id, options);

    // report the channel that was created for us, and its file descriptor
    // SAFETY: the id was created above.
    let channel = unsafe { (*conn.cm_id).channel };
    our_trace_ptr("rdma_create_id", "returned cm_id->channel", channel, options);
    // SAFETY: a synchronous id has a channel, and it lives as long as the id.
    let fd = unsafe { (*channel).fd };
    our_trace_ulong("rdma_create_id", "assigned fd", fd as u64, options);
    Ok(())
}

/// There already is an id: takes it over and makes this connection its context. Called only by
/// a new agent, whose limit and data size become those of the client.
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

    // simple when we have not created our own channel
    conn.cm_id = new_cm_id;
    let context = ptr::from_mut(conn).cast();
    // SAFETY: the id came with a connection request and is ours to destroy, so it is alive.
    unsafe { (*new_cm_id).context = context };

    // report the id that was created for us
    our_trace_ptr("our_migrate_id", "migrated cm_id", conn.cm_id, options);
    Ok(())
}

/// Destroys the id, which cancels what is still going on with it.
pub fn our_destroy_id(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    errno::set(0);
    // SAFETY: the id is alive, its queue pair is gone and every event is acknowledged.
    let ret = unsafe { rdma_destroy_id(conn.cm_id) };
    if ret != 0 {
        our_report_error(ret, "rdma_destroy_id", options);
        return Err(Reported);
    }
    our_trace_ptr("rdma_destroy_id", "destroyed cm_id", conn.cm_id, options);
    Ok(())
}
