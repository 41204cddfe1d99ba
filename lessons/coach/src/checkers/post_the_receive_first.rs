//! The receive is in its queue before the peer can send: before the connection is accepted.

use soft_hca_verbs::AccessFlags;

use crate::facts::{Run, access, key};
use crate::verdict::{Verdict, wrong};
use crate::words::words;

/// Bytes of the peer's message.
const LENGTH: u64 = 40;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let receives = run.receives(run.student);
    let Some(&(index, receive)) = receives.first() else {
        return wrong(
            words!("no receive was posted", "没有提交接收请求"),
            run.sends(run.peer).first().map(|send| send.0),
        );
    };
    let accepted = run.calls(run.student, "rdma_accept");
    if let Some(&(accept, _)) = accepted.first().filter(|(accept, _)| *accept < index) {
        return wrong(
            words!(
                "the receive was posted after rdma_accept, from which on the peer may send: \
                 this time its message came later, or was sent again",
                "接收请求是在 rdma_accept 之后提交的，而从那时起对端就可以发送：\
                 这一次只是消息来得晚，或者重发了"
            ),
            [accept, index],
        );
    }
    if receive.length < LENGTH {
        let length = receive.length;
        return wrong(
            words!(
                "the receive has room for {length} bytes, and the message has {LENGTH}",
                "接收请求只有 {length} 字节的空间，而消息有 {LENGTH} 字节"
            ),
            [index],
        );
    }
    for (at, call) in run.done(run.student, "ibv_reg_mr") {
        let is_its = receive.sges.iter().any(|sge| Some(sge.lkey) == key(call, "lkey"));
        if is_its && !access(call).contains(AccessFlags::LOCAL_WRITE) {
            return wrong(
                words!(
                    "the region of the receive needs IBV_ACCESS_LOCAL_WRITE: the adapter \
                     writes to it",
                    "接收请求的内存区域需要 IBV_ACCESS_LOCAL_WRITE：网卡要往里写"
                ),
                [at, index],
            );
        }
    }
    run.is_received(index)
}
