//! The structure that keeps track of a connection.

use std::ptr;

use common::utilities::OurResult;

use crate::prototypes::{
    OUR_MAX_BUFFER_INFOS, OUR_MAX_SGES, OUR_MAX_USER_DATA_BUFFERS, OUR_MAX_WORK_REQUESTS,
    OurControl, OurOptions,
};
use crate::utilities::{our_calloc, our_report_ulong, our_trace_ptr};

/// Allocates the structure. It stays where it is: the connection manager is given its address.
pub fn our_create_control_struct(options: &OurOptions) -> OurResult<Box<OurControl>> {
    // the arrays that work requests and the adapter point into have a place of their own
    let conn = Box::new(OurControl {
        user_data_sge: our_calloc(OUR_MAX_USER_DATA_BUFFERS, "struct our_control")?,
        user_data_send_work_request: our_calloc(OUR_MAX_WORK_REQUESTS, "struct our_control")?,
        recv_ack: our_calloc(1, "struct our_control")?,
        recv_ack_sge: our_calloc(1, "struct our_control")?,
        send_ack: our_calloc(1, "struct our_control")?,
        send_ack_sge: our_calloc(1, "struct our_control")?,
        local_buffer_info: our_calloc(OUR_MAX_BUFFER_INFOS, "struct our_control")?,
        local_buffer_info_sge: our_calloc(OUR_MAX_SGES, "struct our_control")?,
        remote_buffer_info: our_calloc(OUR_MAX_BUFFER_INFOS, "struct our_control")?,
        remote_buffer_info_sge: our_calloc(OUR_MAX_SGES, "struct our_control")?,
        ..OurControl::default()
    });
    // new control block set up ok
    our_trace_ptr("our_create_control_struct", "created our_control", &*conn, options);
    Ok(conn)
}

/// Frees the structure.
pub fn our_destroy_control_struct(conn: Box<OurControl>, options: &OurOptions) {
    let disconnected = conn.cm_event_info.lock().disconnected;
    our_report_ulong(
        "our_destroy_control_struct",
        "final disconnected",
        disconnected.into(),
        options,
    );
    let address = ptr::from_ref(&*conn);
    drop(conn);
    our_trace_ptr("our_destroy_control_struct", "destroyed our_control", address, options);
}
