//! Work requests that the library refuses: `ibv_post_send` and its kin with an error that nobody was asked
//! for.

use soft_hca_core::trace::event::{PostRefused, Posts};
use soft_hca_record::entry::{Call, Failure, Outcome, ReceiveQueue};
use soft_hca_record::{Name, Named};
use soft_hca_verbs::{ErrorNumber, QpState, Refusal, SendFlags, WrOpcode};

use super::names::named;
use super::objects::{Limits, Objects};

/// Which check has failed, and what it has compared.
type Why = Option<(Refusal, Vec<Named>)>;

/// A work request that was refused, as a call.
pub(super) fn refused(objects: &Objects, refused: &PostRefused) -> Option<Call> {
    let posts = Posts::of(refused.posts)?;
    let (queue, place, name) = match posts {
        Posts::Send | Posts::Receive => {
            let name = if posts == Posts::Send { "ibv_post_send" } else { "ibv_post_recv" };
            (ReceiveQueue::Qp(refused.queue), Name::Qp(refused.queue), name)
        }
        Posts::SharedReceive => {
            let number = refused.queue + 1;
            (ReceiveQueue::Srq(number), Name::Srq(number), "ibv_post_srq_recv")
        }
    };
    let mut args =
        vec![Named(place.kind().into(), place.into()), named("wr_id", Name::WrId(refused.wr_id))];
    if posts == Posts::Send {
        let flags = SendFlags::from_bits_retain(refused.flags);
        args.push(named("opcode", WrOpcode(refused.opcode).to_string()));
        args.push(named("send_flags", flags.to_string()));
    }
    args.push(named("num_sge", refused.sges as i32));
    let limits = objects.limits.get(&queue).copied();
    let why = match posts {
        Posts::Send => limits.and_then(|limits| send(refused, &limits)),
        _ => limits.and_then(|limits| receive(refused, &limits, posts)),
    };
    let (reason, values) = why.map_or((None, Vec::new()), |(why, values)| (Some(why), values));
    let error = Failure::Error(ErrorNumber(refused.errno));
    let result = Outcome::Refused { error, reason, values };
    Some(Call { name: name.into(), args, duration: 0, result, unacknowledged: 0 })
}

fn full(refused: &PostRefused, requested: u32) -> Vec<Named> {
    vec![named("posted", refused.used), named("room", refused.room), named("requested", requested)]
}

fn compared(requested: impl Into<soft_hca_record::Value>, limit: u32) -> Vec<Named> {
    vec![named("requested", requested), named("limit", limit)]
}

fn send(refused: &PostRefused, limits: &Limits) -> Why {
    if ErrorNumber(refused.errno) == ErrorNumber::ENOMEM {
        return Some((Refusal::SendQueueFull, full(refused, limits.sends)));
    }
    let is_atomic = WrOpcode(refused.opcode).fetches();
    let is_inline = SendFlags::from_bits_retain(refused.flags).contains(SendFlags::INLINE);
    if refused.sges > limits.send_sges {
        let compared = compared(refused.sges as i32, limits.send_sges);
        Some((Refusal::SendSges, compared))
    } else if is_inline && refused.length > limits.inline.into() {
        let compared = compared(refused.length as i64, limits.inline);
        Some((Refusal::InlineData, compared))
    } else if is_atomic && refused.address % 8 != 0 {
        let values = vec![named("address", Name::Address(refused.address))];
        Some((Refusal::AtomicAlignment, values))
    } else if is_atomic && refused.length < 8 {
        let values = compared(refused.length as i64, 8);
        Some((Refusal::AtomicRoom, values))
    } else {
        None
    }
}

fn receive(refused: &PostRefused, limits: &Limits, posts: Posts) -> Why {
    if ErrorNumber(refused.errno) == ErrorNumber::ENOMEM {
        let why = match posts {
            Posts::SharedReceive => Refusal::SharedReceiveQueueFull,
            _ => Refusal::ReceiveQueueFull,
        };
        Some((why, full(refused, limits.receives)))
    } else if refused.sges > limits.receive_sges {
        let compared = compared(refused.sges as i32, limits.receive_sges);
        Some((Refusal::ReceiveSges, compared))
    } else if posts == Posts::Receive && QpState(refused.state) == QpState::RESET {
        let state = named("state", QpState::RESET.to_string());
        Some((Refusal::ReceiveInReset, vec![state]))
    } else {
        None
    }
}
