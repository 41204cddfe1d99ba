//! The receive is in its queue before the peer can send: before the connection is accepted.

use soft_hca_verbs::AccessFlags;

use crate::facts::{Run, access, key};
use crate::verdict::{Verdict, wrong};

/// Bytes of the peer's message.
const LENGTH: u64 = 40;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let receives = run.receives(run.student);
    let Some(&(index, receive)) = receives.first() else {
        return wrong("no receive was posted", run.sends(run.peer).first().map(|send| send.0));
    };
    let accepted = run.calls(run.student, "rdma_accept");
    if let Some(&(accept, _)) = accepted.first().filter(|(accept, _)| *accept < index) {
        return wrong(
            "the receive was posted after rdma_accept, from which on the peer may send: this time its \
             message came later, or was sent again",
            [accept, index],
        );
    }
    if receive.length < LENGTH {
        let length = receive.length;
        return wrong(
            format!("the receive has room for {length} bytes, and the message has {LENGTH}"),
            [index],
        );
    }
    for (at, call) in run.done(run.student, "ibv_reg_mr") {
        let is_its = receive.sges.iter().any(|sge| Some(sge.lkey) == key(call, "lkey"));
        if is_its && !access(call).contains(AccessFlags::LOCAL_WRITE) {
            return wrong(
                "the region of the receive needs IBV_ACCESS_LOCAL_WRITE: the adapter writes to it",
                [at, index],
            );
        }
    }
    run.is_received(index)
}
