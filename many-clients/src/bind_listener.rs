//! The listener's place: address and port.

use common::addrinfo::AddrInfo;
use common::memory::zeroed;
use common::utilities::{OurResult, Reported};
use common::{errln, errno};
use rdma_sys::{rdma_bind_addr, rdma_listen};

use crate::prototypes::{OUR_BACKLOG, OurControl, OurOptions};
use crate::utilities::{our_report_error, our_trace_ok, our_trace_ptr};

/// Binds the listener's id to its address and listens.
pub fn our_listener_bind(listen_conn: &mut OurControl, options: &OurOptions) -> OurResult {
    // get structure for the host on which the server resides
    let mut hints: libc::addrinfo = zeroed();
    hints.ai_family = libc::AF_INET;
    hints.ai_socktype = libc::SOCK_STREAM;
    hints.ai_flags = libc::AI_PASSIVE; // this makes it a server
    let aptr = AddrInfo::get(Some(&options.server_name), Some(&options.server_port), &hints)
        .map_err(|error| {
            errln!(
                "{}: getaddrinfo server_name {} port {} {error}",
                options.message,
                options.server_name,
                options.server_port
            );
            Reported
        })?;

    errno::set(0);
    // SAFETY: the id is alive, and so is the address list.
    let ret = unsafe { rdma_bind_addr(listen_conn.cm_id, aptr.ai_addr().cast()) };
    if ret != 0 {
        our_report_error(ret, "rdma_bind_addr", options);
        return Err(Reported);
    }

    our_trace_ok("rdma_bind_addr", options);

    // SAFETY: the id is alive.
    let channel = unsafe { (*listen_conn.cm_id).channel };
    our_trace_ptr("rdma_bind_addr", "returned cm_id -> channel", channel, options);

    errno::set(0);
    // SAFETY: the id is alive and bound.
    let ret = unsafe { rdma_listen(listen_conn.cm_id, OUR_BACKLOG) };
    if ret != 0 {
        our_report_error(ret, "rdma_listen", options);
        return Err(Reported);
    }

    our_trace_ok("rdma_listen", options);

    our_trace_ptr("rdma_listen", "returned cm_id -> channel", channel, options);

    Ok(())
}
