//! Executing a send queue's requests, each by its kind. `rxe_req.c`.

use soft_hca_verbs::cause::Malformed;

use crate::engine::actor::Actor;
use crate::engine::check::CheckError;
use crate::engine::deferred::Deferred;
use crate::engine::request::Requester;
use crate::engine::request_error::RequestError;
use crate::engine::route::Route;
use crate::engine::turn::Turn;
use crate::engine::{atomic, batch, bind, datagram, placement};
use crate::uapi::verbs::{opcode, qp_type};

/// Executes requests from the head on, as many as it is the turn of, or has them executed; gives how many.
/// Here the ways to peers part.
pub(super) fn execute<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    turn: Turn,
    deferred: &mut Deferred,
) -> Result<u32, RequestError> {
    if requester.is_fenced(&requester.wqe(requester.head())) {
        return Err(RequestError::Fenced);
    }
    match Route::load(&requester.qp.route) {
        // A request that leads nowhere finds no responder there.
        Some(Route::Local | Route::Nowhere) => {}
        Some(Route::Remote | Route::MulticastLoopback) => {
            let kind = requester.wqe(requester.head()).opcode;
            let is_local = matches!(kind, opcode::LOCAL_INV | opcode::BIND_MW);
            if !is_local || requester.in_flight() > 0 {
                deferred.link_doorbells.push(requester.qpn);
                return Err(RequestError::LeftToLink);
            }
        }
        None => return Err(RequestError::NoResponse),
    }
    execute_locally(actor, requester, turn, deferred)
}

/// Executes requests between queue pairs of this fabric, with their completions.
fn execute_locally<'a>(
    actor: &Actor<'a>,
    requester: &Requester<'a>,
    turn: Turn,
    deferred: &mut Deferred,
) -> Result<u32, RequestError> {
    let wqe = requester.wqe(requester.head());
    let is_rc = requester.kind == qp_type::RC;
    let is_connected = is_rc || requester.kind == qp_type::UC;
    match wqe.opcode {
        opcode::SEND | opcode::SEND_WITH_IMM | opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM
            if is_connected =>
        {
            return batch::transfer(actor, requester, turn, deferred);
        }
        opcode::SEND_WITH_INV | opcode::RDMA_READ if is_rc => {
            return batch::transfer(actor, requester, turn, deferred);
        }
        _ if requester.kind == qp_type::UD => {
            return datagram::execute(actor, requester, &wqe, turn, deferred);
        }
        _ => {}
    }
    let _credit = requester.reserve(actor, &wqe)?;
    match wqe.opcode {
        opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD | opcode::ATOMIC_WRITE
            if is_rc =>
        {
            atomic::execute(actor, requester, &wqe, deferred)?;
        }
        opcode::FLUSH if is_rc => placement::execute(actor, requester, &wqe, deferred)?,
        opcode::LOCAL_INV if is_connected => {
            bind::local_invalidate(actor, requester, &wqe, deferred)?
        }
        opcode::BIND_MW if is_connected => bind::bind(actor, requester, &wqe, deferred)?,
        _ => return Err(CheckError::malformed(Malformed::Opcode).into()),
    }
    Ok(1)
}
