//! Right, otherwise: the queue pair is there as soon as the device is known, before there is a route.

use std::process::ExitCode;

use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_await_cm_event, our_await_completion, our_begin_resolve_addr,
    our_begin_resolve_route, our_buffer, our_client_id, our_connect, our_dereg_mr, our_disconnect,
    our_fill, our_post_send, our_reg_mr, our_setup_qp, our_setup_send_wr, our_setup_sge,
    our_unsetup,
};
use rdma_sys::{ibv_access_flags, rdma_cm_event_type};

const TEXT: &str = "step by step";

/// From an id to a connection; a message can be sent after it.
fn connect(conn: &mut OurControl) -> OurResult {
    our_begin_resolve_addr(conn)?;
    our_await_cm_event(conn, rdma_cm_event_type::RDMA_CM_EVENT_ADDR_RESOLVED)?;
    our_setup_qp(conn)?;
    our_begin_resolve_route(conn)?;
    our_await_cm_event(conn, rdma_cm_event_type::RDMA_CM_EVENT_ROUTE_RESOLVED)?;
    our_connect(conn, &[])?;
    our_await_cm_event(conn, rdma_cm_event_type::RDMA_CM_EVENT_ESTABLISHED)?;
    Ok(())
}

fn run() -> OurResult {
    let mut conn = our_client_id(OurOptions { message: "client", ..OurOptions::default() })?;
    connect(&mut conn)?;

    let text = our_buffer(&conn, TEXT.len())?;
    our_fill(&text, TEXT);
    let mr = our_reg_mr(&conn, &text, ibv_access_flags(0))?;
    our_post_send(&conn, &mut our_setup_send_wr(&mut [our_setup_sge(&text, mr)]))?;
    our_await_completion(&conn)?;

    our_disconnect(&mut conn)?;
    our_await_cm_event(&conn, rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
