//! A client that connects step by step, and sends one message.

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
    // To do: each of these calls only begins its work. What says that the next one may follow?
    our_begin_resolve_addr(conn)?;
    our_begin_resolve_route(conn)?;
    our_setup_qp(conn)?;
    our_connect(conn, &[])?;
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
