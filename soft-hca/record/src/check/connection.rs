//! What comes too early in a connection: a send before its queue pair, or the peer's, can have it, and messages
//! before the first receive is posted.

use std::collections::HashMap;
use std::sync::Arc;

use soft_hca_verbs::QpState;

use super::{Found, Rule, done, source};
use crate::arguments::{self, qp};
use crate::entry::{Call, Completion, Entry, Outcome, ReceivePosted, ReceiveQueue, Seen, What};
use crate::place::Place;
use crate::value::Name;

/// A queue pair that is there, as far as the beginning of its connection goes.
#[derive(Debug, Default)]
struct Pair {
    process: u32,
    /// `dest_qp_num`
    peer: Option<u32>,
    /// When its program has accepted the connection, or confirmed that the peer has: the peer may send from then on.
    open: Option<u64>,
    /// When and where its first receive was posted, if that was seen itself.
    first_receive: Option<Option<(u64, Option<Arc<Place>>)>>,
    /// A message that takes a receive was posted.
    has_sent: bool,
    /// It has got a message.
    has_received: bool,
}

/// Connections from their beginning to the first message.
#[derive(Debug, Default)]
pub(super) struct Connections {
    pairs: HashMap<u32, Pair>,
    /// When a process last got a message, by whichever queue pair: two programs may have several.
    received: HashMap<u32, u64>,
    /// The queue pairs of ids that have asked for a connection, by process.
    asked: HashMap<(u32, Name), u32>,
}

impl Connections {
    pub(super) fn entry(&mut self, entry: &Entry, found: &mut Vec<Found>) {
        match &entry.what {
            What::Call(call) => {
                self.call(entry, call);
                found.extend(refused(entry, call));
            }
            What::ReceivePosted(posted) => self.receives(entry, posted),
            What::Completion(Completion { qp, opcode, .. }) if opcode.is_receive() => {
                if let Some(pair) = self.pairs.get_mut(qp) {
                    pair.has_received = true;
                    self.received.insert(pair.process, entry.t);
                }
            }
            What::SendPosted(posted) if posted.opcode.takes_receive() => {
                found.extend(self.sends(posted.qp));
            }
            What::ProcessEnded { .. } => {
                self.pairs.retain(|_, pair| pair.process != entry.process);
                self.received.remove(&entry.process);
                self.asked.retain(|(process, _), _| *process != entry.process);
            }
            _ => {}
        }
    }

    fn call(&mut self, entry: &Entry, call: &Call) {
        let process = entry.process;
        let Some((args, given)) = done(call) else { return };
        let id = arguments::name(args, "id").map(|id| (process, id));
        match call.name.as_str() {
            "ibv_create_qp" | "ibv_create_qp_ex" => {
                let has_own = arguments::srq(args, "srq").is_none();
                if let Some(number) = qp(given, "qp_num").filter(|_| has_own) {
                    self.pairs.insert(number, Pair { process, ..Pair::default() });
                }
            }
            "ibv_modify_qp" => {
                let Some(pair) = qp(args, "qp").and_then(|number| self.pairs.get_mut(&number))
                else {
                    return;
                };
                pair.peer = qp(args, "dest_qp_num").or(pair.peer);
                if arguments::word(args, "qp_state") == Some(QpState::RESET) {
                    *pair = Pair { process, ..Pair::default() };
                }
            }
            "ibv_destroy_qp" => _ = qp(args, "qp").map(|number| self.pairs.remove(&number)),
            "rdma_connect" => {
                if let (Some(id), Some(number)) = (id, qp(args, "qp_num")) {
                    self.asked.insert(id, number);
                }
            }
            // Of who has asked it is the command by which the library confirms the answer.
            "rdma_accept" => {
                let asked = || id.and_then(|id| self.asked.get(&id).copied());
                let number = qp(args, "qp_num").or_else(asked);
                if let Some(pair) = number.and_then(|number| self.pairs.get_mut(&number)) {
                    pair.open.get_or_insert(entry.t);
                }
            }
            _ => {}
        }
    }

    fn receives(&mut self, entry: &Entry, posted: &ReceivePosted) {
        let ReceiveQueue::Qp(number) = posted.queue else { return };
        let Some(pair) = self.pairs.get_mut(&number) else { return };
        let seen = (posted.seen == Seen::AtPost).then(|| (entry.t, source(entry)));
        pair.first_receive.get_or_insert(seen);
    }

    /// A queue pair sends a message. What it does after one of its peer's may be because of that.
    fn sends(&mut self, number: u32) -> Option<Found> {
        let own = self.pairs.get_mut(&number)?;
        let is_first = !std::mem::replace(&mut own.has_sent, true) && !own.has_received;
        let last = self.received.get(&own.process).copied();
        let peer = own.peer.filter(|_| is_first)?;
        let pair = self.pairs.get(&peer).filter(|pair| pair.peer == Some(number))?;
        let (t, source) = pair.first_receive.clone()??;
        // Any message since then may have told that the receive is there.
        if last.is_some_and(|last| last >= t) {
            return None;
        }
        pair.open.filter(|open| *open < t)?;
        Some(Found {
            rule: Rule::ReceiveLate,
            process: pair.process,
            place: format!("qp {peer}"),
            what: "the first receive was posted after the connection was accepted, and the peer's first message \
                   answers nothing: it may come before"
                .into(),
            t,
            source,
        })
    }
}

/// A request that was refused for its queue pair's state.
fn refused(entry: &Entry, call: &Call) -> Option<Found> {
    let Outcome::Refused { values, .. } = &call.result else { return None };
    let what = match call.name.as_str() {
        "ibv_post_send" => "send",
        "ibv_post_recv" => "receive",
        _ => return None,
    };
    let state = arguments::text(values, "state")?;
    let number = qp(&call.args, "qp")?;
    Some(Found {
        rule: Rule::State,
        process: entry.process,
        place: format!("qp {number}"),
        what: format!("a {what} was posted in {state}, and refused"),
        t: entry.t,
        source: source(entry),
    })
}
