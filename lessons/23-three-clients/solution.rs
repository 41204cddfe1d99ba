//! A server for three clients at once, which sends each its questions back.

use std::process::ExitCode;
use std::thread;

use common::memory::CArray;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurEvent, OurOptions, our_accept, our_agent, our_buffer, our_dereg_mr,
    our_disconnect, our_listener_with_channel, our_poll_cm_event, our_poll_cq, our_post_recv,
    our_post_send, our_reg_mr, our_setup_qp, our_setup_recv_wr, our_setup_send_wr, our_setup_sge,
    our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_mr, ibv_wc_opcode, rdma_cm_event_type};

const CLIENTS: usize = 3;
/// Bytes of a question.
const LENGTH: usize = 16;

/// A client, with all that is its own.
struct Client {
    conn: OurControl,
    question: CArray<u8>,
    question_mr: *mut ibv_mr,
    answer: CArray<u8>,
    answer_mr: *mut ibv_mr,
}

/// Sets up a client that asks for a connection, and accepts it.
fn our_welcome(listener: &OurControl, request: OurEvent) -> OurResult<Client> {
    let mut conn = our_agent(listener, request);
    our_setup_qp(&mut conn)?;
    let (question, answer) = (our_buffer(&conn, LENGTH)?, our_buffer(&conn, LENGTH)?);
    let question_mr = our_reg_mr(&conn, &question, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    let answer_mr = our_reg_mr(&conn, &answer, ibv_access_flags(0))?;
    let mut client = Client { conn, question, question_mr, answer, answer_mr };
    our_expect_question(&client)?;
    our_accept(&mut client.conn, &[])?;
    Ok(client)
}

/// Posts a receive for the client's next question.
fn our_expect_question(client: &Client) -> OurResult {
    let mut sges = [our_setup_sge(&client.question, client.question_mr)];
    our_post_recv(&client.conn, &mut our_setup_recv_wr(&mut sges))
}

/// Sends a question back, if one has come from the client.
fn our_answer(client: &Client) -> OurResult {
    let Some(work_completion) = our_poll_cq(&client.conn)? else { return Ok(()) };
    if work_completion.opcode != ibv_wc_opcode::IBV_WC_RECV {
        return Ok(());
    }
    client.answer.iter().zip(client.question.iter()).for_each(|(to, from)| to.set(from.get()));
    // first this: the answer may be followed by the next question
    our_expect_question(client)?;
    let mut sges = [our_setup_sge(&client.answer, client.answer_mr)];
    our_post_send(&client.conn, &mut our_setup_send_wr(&mut sges))
}

/// Hangs up as well, and destroys what is the client's own.
fn our_farewell(mut client: Client) -> OurResult {
    our_disconnect(&mut client.conn)?;
    our_dereg_mr(&client.conn, client.question_mr)?;
    our_dereg_mr(&client.conn, client.answer_mr)?;
    our_unsetup(&mut client.conn)
}

fn serve() -> OurResult {
    let options = OurOptions { message: "server", ..OurOptions::default() };
    let mut listener = our_listener_with_channel(options)?;
    let mut clients: Vec<Client> = Vec::new();
    let mut left = CLIENTS;
    while left > 0 {
        if let Some(event) = our_poll_cm_event(&listener)? {
            match event.kind {
                rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST => {
                    clients.push(our_welcome(&listener, event)?);
                }
                rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED => {
                    let is_it = |client: &Client| client.conn.cm_id == event.cm_id;
                    if let Some(place) = clients.iter().position(is_it) {
                        our_farewell(clients.remove(place))?;
                        left -= 1;
                    }
                }
                _ => {}
            }
        }
        for client in &clients {
            our_answer(client)?;
        }
        thread::yield_now();
    }
    our_unsetup(&mut listener)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
