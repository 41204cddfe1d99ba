//! Work requests and completions in words.

use soft_hca_core::trace::cause;
use soft_hca_core::trace::event::{self, TracedSge};
use soft_hca_core::uapi::verbs::{qp_type, wc_flag, wc_opcode};
use soft_hca_record::entry::{
    Changed, Completion, Destination, EmptyPolls, Executed, Flush, MatchedReceive, Polled,
    ReceivePosted, ReceiveQueue, Remote, Seen, SendPosted, Sge,
};
use soft_hca_verbs::{Placement, Selectivity, SendFlags, WcOpcode, WcStatus, WrOpcode};

use super::names::gid;

fn sges(tail: &[u8]) -> Vec<Sge> {
    let sge = |TracedSge { address, length, lkey }| Sge { address, length, lkey };
    TracedSge::all(tail).map(sge).collect()
}

fn total(sges: &[Sge]) -> u64 {
    sges.iter().map(|sge| u64::from(sge.length)).sum()
}

pub(super) fn send_posted(body: &event::SendPosted, tail: &[u8]) -> SendPosted {
    let sges = sges(tail);
    let opcode = WrOpcode(body.opcode);
    let flags = SendFlags::from_bits_retain(body.flags);
    let is_rdma = opcode.writes()
        || matches!(opcode, WrOpcode::RDMA_READ | WrOpcode::FLUSH | WrOpcode::BIND_MW);
    let has_swap = matches!(opcode, WrOpcode::ATOMIC_CMP_AND_SWP | WrOpcode::ATOMIC_WRITE);
    let invalidates = matches!(opcode, WrOpcode::SEND_WITH_INV | WrOpcode::LOCAL_INV);
    let is_inline = flags.contains(SendFlags::INLINE) || sges.is_empty();
    let flush = (opcode == WrOpcode::FLUSH).then(|| Flush {
        placement: Placement::from_bits_retain(body.compare_add as u32),
        selectivity: Selectivity(body.swap as u32),
    });
    let length = match opcode {
        WrOpcode::LOCAL_INV => 0,
        WrOpcode::BIND_MW => body.compare_add,
        WrOpcode::ATOMIC_WRITE => 8,
        _ if is_inline => body.length.into(),
        _ => total(&sges),
    };
    let destination = (body.qp_type == qp_type::UD).then(|| Destination {
        qp: body.dest_qpn,
        qkey: body.qkey,
        gid: gid(body.dgid),
    });
    SendPosted {
        qp: body.qpn,
        wr_id: body.wr_id,
        opcode,
        flags,
        length,
        sges,
        remote: is_rdma.then_some(Remote { address: body.address, rkey: body.rkey }),
        imm: opcode.has_imm().then(|| u32::from_be(body.imm)),
        invalidate: invalidates.then_some(body.imm),
        compare_add: opcode.fetches().then_some(body.compare_add),
        swap: has_swap.then_some(body.swap),
        flush,
        destination,
    }
}

pub(super) fn receive_posted(body: &event::ReceivePosted, tail: &[u8]) -> ReceivePosted {
    let sges = sges(tail);
    ReceivePosted {
        queue: match body.is_shared {
            0 => ReceiveQueue::Qp(body.queue),
            _ => ReceiveQueue::Srq(body.queue + 1),
        },
        wr_id: body.wr_id,
        length: total(&sges),
        sges,
        seen: match event::Seen::of(body.seen) {
            Some(event::Seen::AtPost) => Seen::AtPost,
            Some(event::Seen::AtMessage) => Seen::AtMessage,
            Some(event::Seen::AtCall) | None => Seen::AtCall,
        },
    }
}

pub(super) fn completion(body: &event::Completion, cause: &[u8]) -> Completion {
    Completion {
        cq: body.cq,
        qp: body.qpn,
        wr_id: body.wr_id,
        opcode: WcOpcode(body.opcode),
        status: WcStatus(body.status),
        length: body.length,
        imm: (body.wc_flags & wc_flag::WITH_IMM != 0 && body.opcode >= wc_opcode::RECV)
            .then(|| u32::from_be(body.imm)),
        solicited: body.is_solicited != 0,
        lost: body.is_lost != 0,
        reason: cause::decode(cause),
    }
}

/// Polls of a queue in a recording that began at a time.
pub(super) fn polled(body: &event::Polled, began: u64, tail: &[u8]) -> Polled {
    let event::Polled { empty: count, first, last, cq, found, is_extended } = *body;
    let [first, last] = [first, last].map(|t| t.saturating_sub(began));
    let empty = (count > 0).then_some(EmptyPolls { count, first, last });
    let changed = event::Changed::all(tail).map(|changed| Changed {
        qp: changed.qpn,
        wr_id: changed.wr_id,
        address: changed.address,
        length: changed.length,
        unmapped: changed.is_unmapped != 0,
        returned: changed.has_returned != 0,
    });
    Polled { cq, found, empty, extended: is_extended != 0, changed: changed.collect() }
}

/// A send work request that was executed, and the receive that it has met.
pub(super) fn executed(
    body: &event::Executed,
    receive: Option<MatchedReceive>,
    cause: &[u8],
) -> Executed {
    Executed {
        qp: body.qpn,
        wr_id: body.wr_id,
        opcode: WrOpcode(body.opcode),
        length: body.length.into(),
        status: WcStatus(body.status),
        receive,
        reason: cause::decode(cause),
    }
}
