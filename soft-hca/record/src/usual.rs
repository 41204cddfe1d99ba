//! Checks in words for who does not know RDMA by heart: whose side they are about, and what
//! usually makes them fail.

use soft_hca_verbs::cause::{Cause, Lost, MemoryRole, Peer, Side};
use soft_hca_verbs::{ErrorNumber, EventType, Refusal, WcStatus};

/// Whose memory or queue pair a check is about, as the `subject` sees it, whose work request it is:
/// a send's requester, or for a receive the responder.
pub(crate) fn side(reason: &Cause, subject: Side) -> &'static str {
    let Some(side) = reason.side() else { return "on this side" };
    // The key of a window is not always that of memory.
    let memory = reason.memory().filter(|_| !matches!(reason, Cause::Window { .. }));
    match (memory, subject) {
        (Some(MemoryRole::Local), Side::Requester) => "in the sender's own scatter/gather list",
        (Some(MemoryRole::Local), Side::Responder) => "in the peer's scatter/gather list",
        (Some(MemoryRole::Receive), Side::Requester) => {
            "on the peer's side, in the scatter list of the receive that was met"
        }
        (Some(MemoryRole::Receive), Side::Responder) => "in the scatter list of this receive",
        (Some(MemoryRole::Bound), _) => "in the region that the window is to be bound to",
        (Some(MemoryRole::Remote), Side::Requester) => {
            "in the peer's memory, named by remote_addr and rkey"
        }
        (Some(MemoryRole::Remote), Side::Responder) => {
            "in this side's memory, named by the peer's remote_addr and rkey"
        }
        (None, _) if side != subject => "on the peer's side",
        (None, Side::Requester) => "on the sender's side",
        (None, Side::Responder) => "on the receiver's side, which is this one",
    }
}

/// The usual cause of a lost datagram.
fn lost(why: &Lost) -> &'static str {
    match why {
        Lost::NoQueuePair { .. } => {
            "remote_qpn was exchanged wrongly (byte order), or the peer has destroyed its queue pair"
        }
        Lost::OtherType { .. } => "remote_qpn is the number of another queue pair",
        Lost::InState { .. } => {
            "the peer has not brought its queue pair to RTR yet, or it has failed before"
        }
        Lost::QKey { .. } => {
            "remote_qkey of the work request is not the qkey that the receiver has given its queue \
             pair (ibv_modify_qp, to INIT); with the connection manager the event has it \
             (param.ud.qkey)"
        }
        Lost::OtherPartition { .. } => "pkey_index (ibv_modify_qp, to INIT) of one side is wrong",
        Lost::NoReceive { .. } => {
            "the receiver posts its receives too late or too few: nobody waits for it, and nothing is \
             sent again"
        }
        Lost::NoPath => "the address handle's GID, or a port that is down",
        Lost::OnPurpose => {
            "none: networks lose datagrams, and the program has to send again what is not answered"
        }
    }
}

pub(crate) fn usual_cause(reason: &Cause) -> &'static str {
    match reason {
        Cause::Key { memory: MemoryRole::Remote, key: 0, .. } => {
            "the rkey was never set, or is that of a region without any IBV_ACCESS_REMOTE_... right: \
             soft-hca and Soft-RoCE give such a region rkey 0, adapters give it another number and \
             refuse the access all the same"
        }
        Cause::Key { memory: MemoryRole::Remote, .. } => {
            "the rkey was sent to the peer wrongly (byte order, lkey instead of rkey, an old one), \
             or the peer has deregistered the region too early"
        }
        Cause::Key { .. } => {
            "the SGE's lkey was not set, or the region has been deregistered before the work \
             request was done"
        }
        Cause::Bounds { .. } => {
            "address or length is not that of the registered buffer: an offset too far, a length in \
             other units, or a virtual address where the region is zero-based"
        }
        Cause::QpAccess { .. } => {
            "the queue pair's qp_access_flags (ibv_modify_qp, to INIT) lack the right"
        }
        Cause::Access { .. } => {
            "the region was registered without the access flag (ibv_reg_mr); whatever writes needs \
             IBV_ACCESS_LOCAL_WRITE, and the peer's operations need IBV_ACCESS_REMOTE_..."
        }
        Cause::ProtectionDomain { .. } => {
            "the region and the queue pair were created with different protection domains"
        }
        Cause::Window { .. } => "the window is not bound yet, is invalidated, or another's",
        Cause::Unmapped { .. } => "the buffer was freed or unmapped while it was registered",
        Cause::ReceiveTooSmall { grh: 1.., .. } => {
            "a datagram's receive needs 40 bytes more than the message: its global route header \
             (GRH), or the room for it, comes first"
        }
        Cause::ReceiveTooSmall { .. } => {
            "both sides do not agree on the size of messages, or the order of receives"
        }
        Cause::MessageTooLong { .. } => {
            "inline data beyond max_inline_data, a datagram beyond the path's MTU, or a message of \
             more than 2 GiB"
        }
        Cause::Alignment { .. } => "atomic operations need an address that is a multiple of 8",
        Cause::Malformed { why } if why.side() == Side::Responder => {
            "the peer's queue pair was not given what this needs: max_dest_rd_atomic (ibv_modify_qp \
             to RTR, responder_resources of rdma_accept), or max_recv_sge"
        }
        Cause::Malformed { .. } => {
            "the work request or the queue pair's attributes are not as meant"
        }
        Cause::ReceiverNotReady { .. } => {
            "the receiver posts its receives too late or too few: nothing tells the sender, so both \
             have to agree on how many messages may be on their way; rnr_retry 7 waits for ever"
        }
        Cause::NoResponse { peer, .. } => match peer {
            Peer::Gone => {
                "the peer has ended or has destroyed its queue pair, or dest_qp_num is wrong"
            }
            Peer::NotConnectedToUs { .. } => "the queue pair numbers were exchanged wrongly",
            Peer::InState { .. } => {
                "the peer has not brought its queue pair to RTR yet, or it has failed before"
            }
            Peer::OtherPsn { .. } => "sq_psn of one side has to be rq_psn of the other",
            Peer::NoPath => {
                "a port's cable was pulled, the peer's device was removed, or the LID is wrong"
            }
            Peer::OtherPartition { .. } => {
                "pkey_index (ibv_modify_qp, to INIT) was left at 0, or taken from another port: a \
                 P_Key's index is what ibv_get_pkey_index says; of two limited members neither \
                 hears the other"
            }
            Peer::Remote | Peer::Unreachable => "the peer has ended, or the network is interrupted",
        },
        Cause::NotTaken { why } => lost(why),
        Cause::CqFull { .. } => {
            "the queue is too small for the work requests that complete in it, or nobody polls it"
        }
        Cause::Flushed => {
            "not a failure of its own: look at the first failure of this queue pair, or the end of \
             the connection"
        }
        Cause::Refused { status: WcStatus::RNR_RETRY_EXC_ERR } => {
            "the receiver posts its receives too late or too few, and rnr_retry is not 7"
        }
        Cause::Refused { .. } => "a record of the other host says which check has failed there",
        Cause::Held { .. } => "none: it is executed later",
    }
}

/// The meaning of a status of which no more is known.
pub(crate) fn status_meaning(status: WcStatus) -> &'static str {
    match status {
        WcStatus::WR_FLUSH_ERR => "the queue pair was in the error state already",
        WcStatus::REM_ACCESS_ERR => "the peer's memory does not allow it",
        WcStatus::REM_OP_ERR => "the peer could not take the message into its receive",
        WcStatus::REM_INV_REQ_ERR => "the peer's queue pair refuses the operation",
        WcStatus::LOC_PROT_ERR => "local memory may not be used so",
        WcStatus::LOC_ACCESS_ERR => "what the peer's request names does not allow it",
        WcStatus::LOC_QP_OP_ERR => "the work request makes no sense",
        WcStatus::LOC_LEN_ERR => "a length is wrong",
        WcStatus::MW_BIND_ERR => "the window cannot be bound so",
        WcStatus::RNR_RETRY_EXC_ERR => "the receiver had no receive posted for too long",
        WcStatus::RETRY_EXC_ERR => "the peer did not answer for too long",
        _ => "no more is known than the status",
    }
}

const NO_INDEX: &str = "an index that was not looked up: ibv_query_gid_table lists what there is";

/// The usual cause for the failure of a call's check, for some checks.
fn refusal_cause(refusal: Refusal) -> Option<&'static str> {
    Some(match refusal {
        Refusal::Fault => "--fault or SOFT_HCA_FAULT, as the argument says",
        Refusal::SgidIndex => NO_INDEX,
        Refusal::SendBeforeRts => {
            "the queue pair is not connected yet: ibv_modify_qp to INIT, RTR and RTS come first, or the event \
             RDMA_CM_EVENT_ESTABLISHED"
        }
        Refusal::ReceiveInReset => "ibv_modify_qp to INIT, or rdma_create_qp, comes first",
        Refusal::SendSges | Refusal::ReceiveSges => {
            "ibv_create_qp or ibv_create_srq was asked for fewer SGEs (max_send_sge, max_recv_sge, \
             max_sge)"
        }
        Refusal::InlineData => {
            "cap.max_inline_data, which creation gives back, is less than the work request needs"
        }
        Refusal::AtomicAlignment | Refusal::AtomicRoom => {
            "atomic operations are of eight bytes, at an address that is a multiple of 8"
        }
        Refusal::ReadOnlyMemory => {
            "a constant, or a mapping without PROT_WRITE: map it writable, or register it without \
             IBV_ACCESS_LOCAL_WRITE"
        }
        Refusal::UnmappedMemory => {
            "the buffer was not allocated or is freed, or the length is not its own"
        }
        Refusal::ZeroDgid => {
            "ah_attr.grh.dgid was not set: the two sides exchange their GIDs, as they do their queue pair \
             numbers"
        }
        Refusal::GidFamilies => {
            "sgid_index is not that of the GID of the same kind as the peer's: ibv_query_gid_table lists them"
        }
        _ => return None,
    })
}

/// The usual cause for a call's error, of a check if that is known.
pub(crate) fn call_cause(call: &str, error: ErrorNumber, refusal: Option<Refusal>) -> &'static str {
    if let Some(cause) = refusal.and_then(refusal_cause) {
        return cause;
    }
    match (call, error) {
        ("ibv_post_send", ErrorNumber::ENOMEM) => {
            "more requests are posted than are done: wait for completions before posting more, and \
             have one of every few requests give one (IBV_SEND_SIGNALED); others' queues have room \
             for hardly more than max_send_wr"
        }
        ("ibv_post_send", ErrorNumber::EINVAL) => {
            "the work request's opcode is none of this type of queue pair, or its flags do not go with it"
        }
        ("ibv_post_recv" | "ibv_post_srq_recv", ErrorNumber::ENOMEM) => {
            "more receives are posted than max_recv_wr or max_wr, and messages have taken too few"
        }
        _ => error_cause(error),
    }
}

/// The usual cause of a call's error.
fn error_cause(error: ErrorNumber) -> &'static str {
    match error {
        ErrorNumber::EINVAL => "a wrong argument, or an object in the wrong state",
        ErrorNumber::ENOENT => "an object of another context, or one that is destroyed",
        ErrorNumber::ENODATA => NO_INDEX,
        ErrorNumber::ENOMEM => "more objects than the device has",
        ErrorNumber::EBUSY => "another object still uses this one: destroy them in the other order",
        ErrorNumber::EIO | ErrorNumber::ENXIO => {
            "the device was removed under the program, or its driver ended"
        }
        ErrorNumber::EFAULT => "an address that is not in the program's memory",
        ErrorNumber::EADDRINUSE => "another program listens at this port",
        ErrorNumber::EADDRNOTAVAIL | ErrorNumber::ENODEV => {
            "the address is none of this machine's devices"
        }
        ErrorNumber::EACCES => "a child of fork uses what its parent has opened",
        ErrorNumber::EOPNOTSUPP | ErrorNumber::ENOSYS | ErrorNumber::EPROTONOSUPPORT => {
            "the device cannot do that"
        }
        _ => "see the check",
    }
}

/// The failure that an asynchronous event tells of.
pub(crate) fn asynchronous(event: EventType) -> Option<&'static str> {
    Some(match event {
        EventType::CQ_ERR => "completions were lost, for their queue was full",
        EventType::QP_FATAL => "the queue pair has failed",
        EventType::QP_REQ_ERR => "the peer has sent what this queue pair cannot execute",
        EventType::QP_ACCESS_ERR => "the peer has named memory that it may not use",
        _ => return None,
    })
}
