//! The sentence of each kind of entry.

use soft_hca_verbs::{Cause, WcStatus};

use super::sentence::{Description, Place, Value};
use crate::entry::{
    Call, Completion, ConnectionEvent, Direction, Entry, Executed, Outcome, Packet, Polled,
    ReceivePosted, ReceiveQueue, Role, Seen, SendPosted, What,
};
use crate::value::Name;
use crate::{calls, connection};

/// The number of a multicast group's queue pair (IBTA volume 1, 10.5).
pub(crate) const GROUP: u32 = 0xff_ffff;

impl<'e> Description<'e> {
    /// Describes an entry.
    pub(crate) fn of(entry: &'e Entry) -> Self {
        match &entry.what {
            What::ProcessBegan { pid, role, command, host } => {
                let mut begins = Self::new("process begins", "process", "begins");
                begins.title = "process began".into();
                begins.words("begins");
                if !command.is_empty() {
                    begins.bare(": ", "command", Value::Command(command));
                }
                if let Some(host) = host {
                    begins.bare(" on ", "host", host.as_str());
                }
                let is_daemon = *role == Role::Daemon;
                let role = if is_daemon { "the fabric's daemon" } else { "program" };
                begins.detail("pid", *pid).detail("role", role);
                begins
            }
            What::ProcessEnded { status, unacknowledged, open, .. } => {
                let mut ends = Self::new("process ends", "process", "ends");
                ends.title = "process ended".into();
                ends.words("ends");
                if let Some(status) = status {
                    ends.detail("exit status", Value::Number((*status).into()));
                }
                for left in unacknowledged {
                    let of = format!("{} events of {} {}", left.events, left.of.kind(), left.of);
                    ends.detail("unacknowledged", of);
                }
                for name in open {
                    ends.detail("open", format!("{} {name}", name.kind()));
                }
                ends
            }
            What::Call(call) => Self::call(calls::name(entry, call), call),
            What::ConnectionEvent(event) => Self::connection_event(event),
            What::AsyncEvent { event, element, place } => {
                let mut raised = Self::new("asynchronous event", "async", event.to_string());
                raised.words(event.to_string());
                let mut before = " ";
                if let Some(name) = element {
                    raised.words(format!("{before}{} ", name.kind()));
                    raised.bare("", name.kind(), *name);
                    before = ", ";
                }
                if let Some(place) = place {
                    raised.bare(before, "place", Value::Word(place.into()));
                }
                raised.brief = None;
                raised
            }
            What::SendPosted(posted) => Self::send_posted(posted),
            What::ReceivePosted(posted) => Self::receive_posted(posted),
            What::Stalled { qp, wr_id, reason } => {
                let kind = "send work request, has to wait";
                let mut stalled = Self::new(kind, "work request", "has to wait");
                stalled.title = "stalled".into();
                stalled.brief = Some(&["wr_id"]);
                stalled.request("", " ", *qp, *wr_id);
                stalled.bare(" waits: ", "reason", Value::Cause(reason));
                stalled
            }
            What::Executed(executed) => Self::executed(executed),
            What::Completion(completion) => Self::completion(completion),
            What::Polled(polled) => Self::polled(polled),
            What::Wait { on, fd } => {
                let mut waits = Self::new("wait", "wait", on.function());
                waits.brief = Some(&["state"]);
                waits.bare("", "state", Value::Word("waits".into()));
                waits.bare(" at ", "channel", Value::Channel(*on, *fd));
                waits
            }
            What::Woken { on, fd, waited, event } => {
                let state = match (event, waited) {
                    (true, 0) => "takes an event",
                    (true, _) => "goes on",
                    (false, _) => "is interrupted",
                };
                let mut woken = Self::new("wait, ended", "wait", on.function());
                woken.title = "woken".into();
                woken.brief = Some(&["state", "waited"]);
                woken.bare("", "state", Value::Word(state.into()));
                woken.bare(" at ", "channel", Value::Channel(*on, *fd));
                if !*event || *waited > 0 {
                    woken.bare(" after ", "waited", Value::Duration(*waited));
                }
                woken
            }
            What::Packet(packet) => Self::packet(packet),
            What::Dropped { entries } => {
                let mut dropped = Self::new("missing entries", "dropped", "dropped");
                dropped.title = format!("{entries} entries are missing").into();
                dropped.brief = Some(&["missing"]);
                dropped.bare("", "missing", Value::Missing(*entries));
                dropped
            }
        }
    }

    /// Describes a call, under a name.
    pub(crate) fn call(name: &'e str, call: &'e Call) -> Self {
        let mut said = Self::new("call", "call", name);
        said.title = call.name.as_str().into();
        said.brief = None;
        said.at(Place::Subject).words(call.name.as_str());
        said.at(Place::Argument).words("(").list(&call.args).words(")");
        said.at(Place::Result);
        match &call.result {
            Outcome::Done(_) if call.unacknowledged > 0 => {
                said.bare(" ", "returns", waits_for_acknowledgements(call.unacknowledged));
            }
            Outcome::Done(given) => {
                said.words(if given.is_empty() { " = 0" } else { " = " }).list(given);
            }
            Outcome::Refused { error, reason, values } => {
                said.bare(" = ", "error", Value::Error(*error));
                if let Some(reason) = reason {
                    said.bare(" (", "reason", Value::Refusal(*reason, values)).words(")");
                }
            }
        }
        if call.unacknowledged == 0 {
            said.at(Place::Aside).bare(" <", "took", Value::Duration(call.duration)).words(">");
        }
        said
    }

    /// Describes an event of the connection manager.
    pub(crate) fn connection_event(event: &'e ConnectionEvent) -> Self {
        let kind = "event of the connection manager";
        let mut said = Self::new(kind, "connection", event.event.to_string());
        said.brief = Some(&["id", "listen_id", "status"]);
        said.words(event.event.to_string()).named(" ", "id", Name::CmId(event.id));
        said.also("listen_id", event.listen_id.map(Name::CmId));
        let status = connection::status(event.event, event.status);
        said.also("status", Some(status).filter(|_| event.status != 0));
        said.also("qp_num", event.qp.map(Name::Qp));
        said.also("private_data_len", Some(event.private_data).filter(|length| *length > 0));
        said
    }

    fn send_posted(posted: &'e SendPosted) -> Self {
        let kind = "send work request, posted";
        let mut said = Self::new(kind, "work request", "ibv_post_send");
        said.title = format!("post {}", posted.opcode).into();
        said.brief = Some(&["opcode", "length", "wr_id"]);
        said.words("ibv_post_send").request("(", ", ", posted.qp, posted.wr_id);
        said.bare(", ", "opcode", Value::Opcode(posted.opcode));
        if !posted.flags.is_empty() {
            said.bare(", ", "send_flags", Value::Word(posted.flags.to_string().into()));
        }
        said.memory(posted.length, &posted.sges);
        said.also("remote_addr", posted.remote.map(|remote| Name::Address(remote.address)));
        said.also("rkey", posted.remote.map(|remote| Name::Key(remote.rkey)));
        said.also("imm", posted.imm.map(Value::Imm));
        said.also("invalidate", posted.invalidate.map(Name::Key));
        said.also("compare_add", posted.compare_add.map(Value::Unsigned));
        said.also("swap", posted.swap.map(Value::Unsigned));
        if let Some(flush) = &posted.flush {
            said.bare(", ", "type", Value::Word(flush.placement.to_string().into()));
            said.bare(", ", "level", Value::Word(flush.selectivity.to_string().into()));
        }
        if let Some(to) = &posted.destination {
            let qp = match to.qp {
                GROUP => Value::Word("group".into()),
                qp => Name::Qp(qp).into(),
            };
            said.named(", ", "remote_qpn", qp);
            said.named(", ", "dgid", Value::Word(to.gid.as_str().into()));
            said.named(", ", "remote_qkey", Value::Word(format!("{:#x}", to.qkey).into()));
        }
        said.words(")");
        said
    }

    fn receive_posted(posted: &'e ReceivePosted) -> Self {
        let (function, kind, queue) = match posted.queue {
            ReceiveQueue::Qp(qp) => ("ibv_post_recv", "qp", Name::Qp(qp)),
            ReceiveQueue::Srq(srq) => ("ibv_post_srq_recv", "srq", Name::Srq(srq)),
        };
        let mut said = Self::new("receive, posted", "work request", function);
        said.title = "post receive".into();
        said.brief = Some(&["length", "wr_id"]);
        said.words(function).named("(", kind, queue);
        said.also("wr_id", Some(Name::WrId(posted.wr_id)));
        said.memory(posted.length, &posted.sges).words(")");
        let before = match posted.seen {
            Seen::AtPost => return said,
            Seen::AtCall => "some time before this",
            Seen::AtMessage => "some time before this message",
        };
        said.at(Place::Aside).bare(" ", "posted", before);
        said
    }

    fn executed(executed: &'e Executed) -> Self {
        let Executed { opcode, status, reason, .. } = executed;
        let is_done = *status == WcStatus::SUCCESS;
        let name = match (is_done, reason) {
            (true, None) => "executed".into(),
            (true, Some(_)) => "dropped".into(),
            (false, _) => status.to_string(),
        };
        let mut said = Self::new("send work request, executed", "work request", name);
        let fails = if is_done { String::new() } else { format!(": {status}") };
        said.title = format!("execute {opcode}{fails}").into();
        said.brief = Some(&["wr_id"]);
        said.request("", " ", executed.qp, executed.wr_id);
        said.bare(" ", "opcode", Value::Opcode(*opcode));
        let status = Value::Word(status.to_string().into());
        if is_done {
            said.detail("status", status);
            said.bare(" is executed, ", "length", Value::Bytes(executed.length));
        } else {
            said.bare(" fails: ", "status", status);
        }
        if let Some(receive) = executed.receive {
            said.bare(", into the receive ", "receive", Value::Receive(receive));
        }
        if let Some(reason) = reason {
            said.bare(": ", "reason", Value::Cause(reason));
        }
        said
    }

    fn completion(done: &'e Completion) -> Self {
        let is_success = done.status == WcStatus::SUCCESS;
        let status = done.status.to_string();
        let name = if is_success { done.opcode.to_string() } else { status.clone() };
        let mut said = Self::new("completion", "completion", name);
        said.brief = Some(&["outcome", "length", "wr_id"]);
        said.named("completion in ", "cq", Name::Cq(done.cq));
        said.request(": ", " ", done.qp, done.wr_id);
        if is_success {
            said.detail("status", Value::Word(status.into()));
            said.bare(" ", "opcode", Value::Word(done.opcode.to_string().into()));
            said.bare(", ", "length", Value::Bytes(done.length.into()));
        } else {
            said.bare(" ", "status", Value::Word(status.into()));
        }
        said.also("imm", done.imm.map(Value::Imm));
        if done.solicited {
            said.bare(", ", "event", Value::Word("solicited".into()));
        }
        if done.lost {
            said.bare(", ", "outcome", Value::Word("lost: the queue is full".into()));
        }
        match &done.reason {
            Some(flushed @ Cause::Flushed) => said.detail("reason", Value::Cause(flushed)),
            Some(reason) => said.bare(": ", "reason", Value::Cause(reason)),
            None => &mut said,
        };
        said
    }

    fn polled(polled: &'e Polled) -> Self {
        let mut said = Self::new("poll", "poll", polled.function());
        if polled.found == 0 {
            said.title = format!("{} in vain", polled.function()).into();
        }
        said.brief = Some(&["found", "empty"]);
        said.words(polled.function()).named("(", "cq", Name::Cq(polled.cq));
        said.bare(") = ", "found", Value::Found(polled.found));
        if let Some(empty) = &polled.empty {
            let value = Value::Empty(empty, polled.found > 0);
            match polled.found > 0 || empty.count > 1 {
                true => said.bare(" (", "empty", value).words(")"),
                false => said.at(Place::Detail).bare("", "empty", value),
            };
        }
        for changed in &polled.changed {
            said.bare(", and ", "changed", Value::Changed(changed));
        }
        said
    }

    fn packet(packet: &'e Packet) -> Self {
        let direction = match packet.direction {
            Direction::Sent => "sent",
            Direction::Received => "received",
        };
        let mut said = Self::new("packet", "packet", packet.opcode.as_str());
        let verb = if packet.direction == Direction::Sent { "send" } else { "receive" };
        said.title = format!("{verb} {}", packet.opcode).into();
        said.brief = Some(match packet.length {
            0 => &["direction", "psn"],
            _ => &["direction", "psn", "length"],
        });
        said.bare("packet ", "direction", Value::Word(direction.into()));
        said.bare(" ", "from", packet.from.as_str()).bare(" > ", "to", packet.to.as_str());
        said.bare(" ", "opcode", packet.opcode.as_str());
        if let Some(qp) = packet.qp {
            said.detail("qp", Name::Qp(qp));
        }
        said.named(" ", "dest_qp", Name::Qp(packet.dest_qp));
        said.named(" ", "psn", Name::Psn(packet.psn));
        said.bare(", ", "length", Value::Bytes(packet.length.into()));
        if let Some(note) = &packet.note {
            said.bare(", ", "note", Value::Note(note));
        }
        said
    }
}

/// Until when a call that destroys an object does not return: for so many events.
fn waits_for_acknowledgements(unacknowledged: u32) -> String {
    let events = match unacknowledged {
        1 => "1 event is".into(),
        events => format!("{events} events are"),
    };
    format!("does not return until {events} acknowledged")
}
