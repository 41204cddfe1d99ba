//! Three clients: they connect, ask in an order that is not theirs, and hang up one after the other.

use std::process::ExitCode;

use common::memory::{CArray, c_text};
use common::utilities::{OurResult, Reported, exit_code};
use common::{errln, outln};
use kit::{
    OurControl, OurOptions, our_await_cm_event, our_await_completion, our_begin_resolve_addr,
    our_begin_resolve_route, our_buffer, our_client_id, our_connect, our_dereg_mr, our_disconnect,
    our_fill, our_post_recv, our_post_send, our_reg_mr, our_setup_qp, our_setup_recv_wr,
    our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_mr, rdma_cm_event_type};

const CLIENTS: usize = 3;
/// Bytes of a question.
const LENGTH: usize = 16;

/// The next step of the clients.
enum Step {
    /// These ask, and only then take the answers.
    Ask(&'static [usize]),
    /// This one hangs up.
    HangUp(usize),
}

const STEPS: &[Step] = &[
    Step::Ask(&[2]),
    Step::Ask(&[0, 1]),
    Step::HangUp(1),
    Step::Ask(&[2, 0]),
    Step::HangUp(0),
    Step::Ask(&[2]),
    Step::HangUp(2),
];

/// A client.
struct Client {
    conn: OurControl,
    question: CArray<u8>,
    question_mr: *mut ibv_mr,
    answer: CArray<u8>,
    answer_mr: *mut ibv_mr,
}

/// Has a client ask for a connection.
fn our_begin() -> OurResult<Client> {
    let mut conn = our_client_id(OurOptions { message: "peer", ..OurOptions::default() })?;
    our_begin_resolve_addr(&conn)?;
    our_await_cm_event(&conn, rdma_cm_event_type::RDMA_CM_EVENT_ADDR_RESOLVED)?;
    our_begin_resolve_route(&conn)?;
    our_await_cm_event(&conn, rdma_cm_event_type::RDMA_CM_EVENT_ROUTE_RESOLVED)?;
    our_setup_qp(&mut conn)?;
    let (question, answer) = (our_buffer(&conn, LENGTH)?, our_buffer(&conn, LENGTH)?);
    let question_mr = our_reg_mr(&conn, &question, ibv_access_flags(0))?;
    let answer_mr = our_reg_mr(&conn, &answer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    let mut client = Client { conn, question, question_mr, answer, answer_mr };
    our_expect_answer(&client)?;
    our_connect(&mut client.conn, &[])?;
    Ok(client)
}

/// Posts a receive for the next answer.
fn our_expect_answer(client: &Client) -> OurResult {
    let mut sges = [our_setup_sge(&client.answer, client.answer_mr)];
    our_post_recv(&client.conn, &mut our_setup_recv_wr(&mut sges))
}

fn our_ask(client: &Client, text: &str) -> OurResult {
    our_fill(&client.question, text);
    let mut sges = [our_setup_sge(&client.question, client.question_mr)];
    our_post_send(&client.conn, &mut our_setup_send_wr(&mut sges))
}

fn our_take_answer(client: &Client) -> OurResult {
    // of the send, and of the receive
    our_await_completion(&client.conn)?;
    our_await_completion(&client.conn)?;
    let (asked, told) = (c_text(&client.question), c_text(&client.answer));
    outln!("{asked:?}: {told:?}");
    if asked != told {
        errln!("peer: has asked {asked:?}, and the answer is {told:?}");
        return Err(Reported);
    }
    our_expect_answer(client)
}

/// Hangs up, and waits until the server has as well.
fn our_hang_up(client: &mut Client) -> OurResult {
    our_disconnect(&mut client.conn)?;
    our_await_cm_event(&client.conn, rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED)?;
    our_dereg_mr(&client.conn, client.question_mr)?;
    our_dereg_mr(&client.conn, client.answer_mr)?;
    our_unsetup(&mut client.conn)
}

fn run() -> OurResult {
    let clients: OurResult<Vec<Client>> = (0..CLIENTS).map(|_| our_begin()).collect();
    let mut clients = clients?;
    for client in &clients {
        our_await_cm_event(&client.conn, rdma_cm_event_type::RDMA_CM_EVENT_ESTABLISHED)?;
    }
    for (number, step) in STEPS.iter().enumerate() {
        match step {
            Step::Ask(who) => {
                for at in *who {
                    our_ask(&clients[*at], &format!("{number} of client {}", at + 1))?;
                }
                for at in *who {
                    our_take_answer(&clients[*at])?;
                }
            }
            Step::HangUp(at) => our_hang_up(&mut clients[*at])?,
        }
    }
    Ok(())
}

pub fn main() -> ExitCode {
    exit_code(run())
}
