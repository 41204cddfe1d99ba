//! Which status a failure gets, on which side: `rxe_comp.c` and `rxe_resp.c`, IBTA 9.9 and 10.10.
//!
//! Where kernel Soft-RoCE and the specification differ, these are the choices:
//!
//! | cause | requester | responder | why |
//! | --- | --- | --- | --- |
//! | bad key of local memory | `LOC_PROT_ERR` | - | the specification's; rxe says `LOC_QP_OP_ERR` |
//! | bad key in a receive | `REM_OP_ERR` | `LOC_PROT_ERR` | as above |
//! | receive too small | `REM_INV_REQ_ERR` | `LOC_LEN_ERR` | the specification's; rxe says `REM_OP_ERR` and `LOC_QP_OP_ERR` |
//! | queue pair does not allow the access | `REM_INV_REQ_ERR` | - | rxe's, and one of the two that are specified |
//! | receive too small, UC and UD | none | none: it remains for the next message | the specification's; rxe of Linux 6.1 fails as above |
//! | the same of a shared queue, UC and UD | none | `LOC_LEN_ERR`, and the queue pair goes on | the specification's |
//! | `retry_cnt` 7 | `RETRY_EXC_ERR` after 8 tries | - | the specification's; rxe tries for ever |
//! | `max_rd_atomic` 0, yet a read, atomic or flush | `LOC_QP_OP_ERR` | - | rxe never executes it |
//! | message over the port's `max_msg_sz` | `LOC_LEN_ERR` | - | the specification's: what is announced is kept |
//! | datagram longer than the MTU | `LOC_LEN_ERR` | - | as adapters answer; rxe reports success and sends nothing |
//! | key to be invalidated by a LOCAL_INV is not valid | `MW_BIND_ERR` | - | the specification's "memory management operation error"; rxe says `LOC_QP_OP_ERR` |
//! | key to be invalidated is not valid | none: the message has arrived | `MW_BIND_ERR` | the specification's class J; rxe says `REM_INV_REQ_ERR` |
//! | bad key of a write with immediate data in one packet | `REM_ACCESS_ERR` | `LOC_ACCESS_ERR` | the specification's; rxe says `REM_ACCESS_ERR` |
//! | flush without a known placement | `REM_INV_REQ_ERR` | - | nothing could be guaranteed; rxe says it has done it |
//! | memory unmapped while it is registered | `LOC_PROT_ERR`, `REM_ACCESS_ERR` or `REM_OP_ERR` | `LOC_PROT_ERR` for a receive | hardware pins it; treated as a bad key |
//!
//! A failed queue pair of any type goes to the error state, as on rxe; the specification would have
//! UC and UD go to SQE for errors of the sending side. Where no completion tells a responder why it
//! has failed, an asynchronous event does ([`refusal_event`]).

use crate::engine::asynchronous::Async;
use crate::uapi::verbs::status;

/// Local memory of a work request may not be used so.
pub(super) const LOCAL_MEMORY: u32 = status::LOC_PROT_ERR;
/// A work request that makes no sense.
pub(super) const MALFORMED: u32 = status::LOC_QP_OP_ERR;
/// The message is longer than any may be, or a result does not fit.
pub(super) const TOO_LONG: u32 = status::LOC_LEN_ERR;
/// The receive's memory may not be used; at its owner.
pub(super) const RECEIVE_MEMORY: u32 = status::LOC_PROT_ERR;
/// The receive makes no sense; at its owner.
pub(super) const RECEIVE_MALFORMED: u32 = status::LOC_QP_OP_ERR;
/// The same two, at the sender.
pub(super) const REMOTE_RECEIVE: u32 = status::REM_OP_ERR;
/// The receive is too small; at its owner.
pub(super) const RECEIVE_TOO_SMALL: u32 = status::LOC_LEN_ERR;
/// The same, at the sender.
pub(super) const TOO_LONG_FOR_RECEIVE: u32 = status::REM_INV_REQ_ERR;
/// Memory that a write with immediate data names may not be used; at its owner, for the receive.
pub(super) const RECEIVE_ACCESS: u32 = status::LOC_ACCESS_ERR;
/// A key that is to be made invalid is not valid: "memory management operation error" (IBTA 11.6.2),
/// for which the providers of hns, qedr and bnxt_re have this status.
pub(super) const INVALIDATE: u32 = status::MW_BIND_ERR;
/// The same for a key that the peer wants to be made invalid; at its owner, for the receive.
pub(super) const RECEIVE_INVALIDATE: u32 = INVALIDATE;
/// The peer breaks off a message that has consumed a receive; for this.
pub(super) const RECEIVE_BROKEN_OFF: u32 = status::LOC_QP_OP_ERR;
/// The peer's memory may not be used.
pub(super) const REMOTE_MEMORY: u32 = status::REM_ACCESS_ERR;
/// The peer's queue pair does not do that, or the address is not aligned.
pub(super) const REMOTE_REFUSES: u32 = status::REM_INV_REQ_ERR;

/// The longest message (IBTA 9.7.7).
pub(super) const MAX_MESSAGE: u64 = 1 << 31;

/// The event for the program of a responder that has refused a request with a status, and has no
/// receive that could say so: IBTA 9.9.3.1.3, C9-222.1.1, and 11.6.3.1.
pub(super) fn refusal_event(status: u32, qpn: u32) -> Option<Async> {
    match status {
        REMOTE_MEMORY => Some(Async::QpAccess(qpn)),
        REMOTE_REFUSES => Some(Async::QpRequest(qpn)),
        _ => None,
    }
}
