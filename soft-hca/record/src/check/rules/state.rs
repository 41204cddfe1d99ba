//! A request in a state of its queue pair, or of the peer's, that is none for it.

use soft_hca_verbs::QpState;
use soft_hca_verbs::cause::{Cause, Peer};

use crate::arguments::{qp, text};
use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::{Call, Outcome, What};

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "adapters do not look at the state when something is posted: the request is lost, or fails, without an \
         error of the call; and a message to a peer that is not in RTR yet is lost, and sent again as long as \
         timeout and retry_cnt allow",
    cure: "post receives from INIT on, and sends in RTS, when the peer has said that it is in RTR",
};

#[derive(Debug, Default)]
pub(in crate::check) struct State;

impl Lookout for State {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        match &scene.entry.what {
            What::Stalled { qp, reason: Cause::NoResponse { peer, .. }, .. }
                if is_not_yet(peer) =>
            {
                let what = "a send was posted before the peer's queue pair could receive it, and was tried again";
                found.push(scene.finds(Rule::State, format!("qp {qp}"), what.into()));
            }
            What::Call(call) => found.extend(refused(scene, call)),
            _ => {}
        }
    }
}

/// A request that was refused for its queue pair's state.
fn refused(scene: Scene<'_>, call: &Call) -> Option<Found> {
    let Outcome::Refused { values, .. } = &call.result else { return None };
    let what = match call.name.as_str() {
        "ibv_post_send" => "send",
        "ibv_post_recv" => "receive",
        _ => return None,
    };
    let state = text(values, "state")?;
    let number = qp(&call.args, "qp")?;
    let what = format!("a {what} was posted in {state}, and refused");
    Some(scene.finds(Rule::State, format!("qp {number}"), what))
}

/// Whether a peer does not answer because it is not connected yet.
fn is_not_yet(peer: &Peer) -> bool {
    match peer {
        Peer::InState { state } => matches!(*state, QpState::RESET | QpState::INIT),
        Peer::NotConnectedToUs { dest_qp } => *dest_qp == 0,
        _ => false,
    }
}
