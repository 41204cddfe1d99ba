//! An entry in words: one line of it, all its members, and the reason of a failure.

use std::net::Ipv6Addr;

use soft_hca_verbs::{EventType, WcStatus, WrOpcode};

use crate::calls;
use crate::cause::sentence;
use crate::connection;
use crate::entry::{
    Call, Changed, Channel, Direction, Entry, Outcome, Packet, PacketNote, Polled, ReceiveQueue,
    Role, Seen, Sge, What,
};
use crate::text::{compared, often, waits_for_acknowledgements};
pub(crate) use crate::time::duration;
use crate::value::{Name, Named, Value};

/// An entry as a line of a picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Label {
    /// The function's or the event's name.
    pub(crate) name: String,
    /// What there is to say behind it, as far as it fits.
    pub(crate) rest: String,
    /// What a call gives, which comes behind that and is worth more.
    pub(crate) result: String,
    /// The reason, if it is a failure or has to wait.
    pub(crate) reason: Option<String>,
}

/// How bad an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// As it should be.
    Well,
    /// It has to wait, or was given back unexecuted because something else has failed.
    Notable,
    /// A failure.
    Failure,
}

/// How bad an entry is.
pub(crate) fn severity(entry: &Entry) -> Severity {
    let by_status = |status| match status {
        WcStatus::SUCCESS => Severity::Well,
        WcStatus::WR_FLUSH_ERR => Severity::Notable,
        _ => Severity::Failure,
    };
    match &entry.what {
        What::Call(Call { result: Outcome::Refused { .. }, .. }) => Severity::Failure,
        What::ConnectionEvent(event) if connection::has_failed(event.event, event.status) => {
            Severity::Failure
        }
        What::ConnectionEvent(_) => Severity::Well,
        What::AsyncEvent { event, .. } => match *event {
            EventType::COMM_EST
            | EventType::SQ_DRAINED
            | EventType::QP_LAST_WQE_REACHED
            | EventType::SRQ_LIMIT_REACHED
            | EventType::PATH_MIG
            | EventType::PORT_ACTIVE
            | EventType::CLIENT_REREGISTER => Severity::Well,
            _ => Severity::Failure,
        },
        What::Stalled { .. } | What::Dropped { .. } => Severity::Notable,
        // A datagram that was dropped.
        What::Executed(executed)
            if executed.status == WcStatus::SUCCESS && executed.reason.is_some() =>
        {
            Severity::Notable
        }
        What::Executed(executed) => by_status(executed.status),
        What::Completion(completion) if completion.lost => Severity::Failure,
        What::Completion(completion) => by_status(completion.status),
        What::Packet(packet) => match packet.note {
            Some(PacketNote::Nak(_)) => Severity::Failure,
            Some(
                PacketNote::Retransmission(_) | PacketNote::RnrNak(_) | PacketNote::Ignored(_),
            ) => Severity::Notable,
            Some(PacketNote::Ack) | None => Severity::Well,
        },
        _ => Severity::Well,
    }
}

/// An entry as a line.
pub(crate) fn label(entry: &Entry) -> Label {
    let plain = |name: &str, rest: String| Label { name: name.into(), rest, ..Label::default() };
    match &entry.what {
        What::ProcessBegan { .. } => plain("begins", String::new()),
        What::ProcessEnded { .. } => plain("ends", String::new()),
        What::Call(call) => called(calls::name(entry, call), call),
        What::ConnectionEvent(event) => {
            let mut rest = format!("id {}", event.id);
            if let Some(listen) = event.listen_id {
                rest += &format!(" (came to id {listen})");
            }
            if event.status != 0 {
                rest += &format!(", status {}", connection::status(event.event, event.status));
            }
            plain(&event.event.to_string(), rest)
        }
        What::AsyncEvent { event, .. } => plain(&event.to_string(), about(&entry.what)),
        What::SendPosted(send) => {
            let opcode = short_opcode(send.opcode);
            let rest = format!("{opcode} {}, wr_id {}", bytes(send.length), wr_id(send.wr_id));
            plain("ibv_post_send", rest)
        }
        What::ReceivePosted(receive) => {
            let rest = format!("{}, wr_id {}", bytes(receive.length), wr_id(receive.wr_id));
            plain(post_receive(receive.queue), rest)
        }
        What::Stalled { wr_id: id, reason: why, .. } => Label {
            name: "has to wait".into(),
            rest: format!("wr_id {}", wr_id(*id)),
            reason: Some(sentence(why)),
            ..Label::default()
        },
        What::Executed(executed) => {
            let mut label = match executed.status {
                WcStatus::SUCCESS if executed.reason.is_some() => {
                    plain("dropped", format!("wr_id {}", wr_id(executed.wr_id)))
                }
                WcStatus::SUCCESS => plain(
                    "executed",
                    format!("wr_id {}, no completion asked for", wr_id(executed.wr_id)),
                ),
                status => plain(&status.to_string(), format!("wr_id {}", wr_id(executed.wr_id))),
            };
            label.reason = executed.reason.as_ref().map(sentence);
            label
        }
        What::Completion(done) if done.status == WcStatus::SUCCESS => {
            let mut rest = format!("{}, wr_id {}", bytes(done.length.into()), wr_id(done.wr_id));
            if done.lost {
                rest = format!("lost: the completion queue is full; {rest}");
            }
            plain(&done.opcode.to_string(), rest)
        }
        What::Completion(done) => Label {
            name: done.status.to_string(),
            rest: format!("wr_id {}", wr_id(done.wr_id)),
            reason: done.reason.as_ref().map(sentence),
            ..Label::default()
        },
        What::Polled(polled) => plain(polled.function(), polls(polled)),
        What::Wait { on, .. } => plain(takes(*on), "waits".into()),
        What::Woken { on, waited: 0, event: true, .. } => {
            plain(takes(*on), "takes an event".into())
        }
        What::Woken { on, waited, event, .. } => {
            let end = if *event { "goes on after" } else { "is interrupted after" };
            plain(takes(*on), format!("{end} {}", duration(*waited)))
        }
        What::Packet(packet) => of_packet(packet),
        What::Dropped { entries } => {
            plain("dropped", format!("{} entries are missing from here on", thousands(*entries)))
        }
    }
}

fn called(name: &str, call: &Call) -> Label {
    let mut rest = list(&call.args);
    let mut result = String::new();
    let mut reason = None;
    match &call.result {
        Outcome::Done(_) if call.unacknowledged > 0 => {
            result = waits_for_acknowledgements(call);
        }
        Outcome::Done(results) if results.is_empty() => {}
        Outcome::Done(results) => {
            // Of what a call gives, its first value matters most.
            result = format!("\u{2192} {}", list(&results[..1]));
        }
        Outcome::Refused { error, reason: why, values } => {
            rest = format!("{error}; {rest}");
            reason = Some(match why {
                Some(why) => format!("{error}: {why}{}", compared(values, Value::to_string)),
                None => format!("{error}: the call is refused"),
            });
        }
    }
    Label { name: name.into(), rest, result, reason }
}

fn list(values: &[Named]) -> String {
    let mut text = String::new();
    for Named(name, value) in values.iter().filter(|Named(_, value)| *value != Value::None) {
        if !text.is_empty() {
            text += ", ";
        }
        match value {
            // Constants speak for themselves.
            Value::Text(value) if value != "0" => text += &short_gid(value),
            value => text += &format!("{name} {value}"),
        }
    }
    text
}

/// A GID as IPv6 addresses are written, with its zeros left out.
fn short_gid(text: &str) -> String {
    text.parse().map_or_else(|_| text.into(), |gid: Ipv6Addr| gid.to_string())
}

fn of_packet(packet: &Packet) -> Label {
    let way = match packet.direction {
        Direction::Sent => "sent",
        Direction::Received => "received",
    };
    let mut rest = format!("{way}, psn {}", packet.psn);
    if packet.length > 0 {
        rest += &format!(", {}", bytes(packet.length.into()));
    }
    let reason = match &packet.note {
        None | Some(PacketNote::Ack) => None,
        Some(PacketNote::Retransmission(why)) => Some(format!("sent again: {why}")),
        Some(PacketNote::RnrNak(wait)) => {
            Some(format!("receiver not ready: to be sent again in {}", duration(*wait)))
        }
        Some(PacketNote::Nak(why)) => Some(format!("refused: {why}")),
        Some(PacketNote::Ignored(why)) => Some(format!("not taken: {why}")),
    };
    Label { name: packet.opcode.clone(), rest, result: String::new(), reason }
}

/// All of an entry, as names and values.
pub(crate) fn members(entry: &Entry) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut put = |name: &str, value: String| all.push((name.to_owned(), value));
    match &entry.what {
        What::ProcessBegan { pid, role, command, host } => {
            put("command", command_line(command));
            put("pid", pid.to_string());
            put(
                "role",
                if *role == Role::Daemon { "the fabric's daemon" } else { "program" }.into(),
            );
            if let Some(host) = host {
                put("host", host.clone());
            }
        }
        What::ProcessEnded { .. } => {
            put("what", "the process has ended, or has closed the device".into())
        }
        What::Call(call) => {
            for Named(name, value) in &call.args {
                put(name, value.to_string());
            }
            match &call.result {
                Outcome::Done(results) => {
                    for Named(name, value) in results {
                        put(&format!("gives {name}"), value.to_string());
                    }
                }
                Outcome::Refused { error, reason, values } => {
                    put("refused with", format!("{error} ({})", error.number()));
                    if let Some(reason) = reason {
                        let values = compared(values, Value::to_string);
                        put("because", format!("{reason}{values}"));
                    }
                }
            }
            match call.unacknowledged {
                0 => put("took", duration(call.duration)),
                _ => put("returns", waits_for_acknowledgements(call)),
            }
        }
        What::ConnectionEvent(event) => {
            put("id", event.id.to_string());
            if let Some(listen) = event.listen_id {
                put("came to the id", listen.to_string());
            }
            put("status", connection::status(event.event, event.status));
            if let Some(qp) = event.qp {
                put("the peer's queue pair", qp.to_string());
            }
            put("private data", bytes(event.private_data.into()));
        }
        What::AsyncEvent { .. } => put("about", about(&entry.what)),
        What::SendPosted(send) => {
            put("queue pair", send.qp.to_string());
            put("wr_id", wr_id(send.wr_id));
            put("opcode", send.opcode.to_string());
            put("send_flags", send.flags.to_string().replace('|', " | "));
            put("length", bytes(send.length));
            put("sg_list", pieces(&send.sges));
            if let Some(remote) = &send.remote {
                put("remote_addr", format!("{:#x}", remote.address));
                put("rkey", format!("{:#x}", remote.rkey));
            }
            if let Some(imm) = send.imm {
                put("imm_data", imm.to_string());
            }
            if let Some(key) = send.invalidate {
                put("invalidate_rkey", format!("{key:#x}"));
            }
            if let Some(value) = send.compare_add {
                put("compare_add", value.to_string());
            }
            if let Some(value) = send.swap {
                put("swap", value.to_string());
            }
            if let Some(flush) = &send.flush {
                put("type", flush.placement.to_string().replace('|', " | "));
                put("level", flush.selectivity.to_string());
            }
            if let Some(to) = &send.destination {
                put("to the queue pair", to.qp.to_string());
                put("remote_qkey", format!("{:#x}", to.qkey));
                put("to the GID", to.gid.clone());
            }
        }
        What::ReceivePosted(receive) => {
            match receive.queue {
                ReceiveQueue::Qp(qp) => put("queue pair", qp.to_string()),
                ReceiveQueue::Srq(srq) => put("shared receive queue", srq.to_string()),
            }
            put("wr_id", wr_id(receive.wr_id));
            put("length", bytes(receive.length));
            put("sg_list", pieces(&receive.sges));
            let posted = match receive.seen {
                Seen::AtPost => None,
                Seen::AtCall => Some("before this, since the process's last call"),
                Seen::AtMessage => {
                    Some("some time before this, when a message was about to take it")
                }
            };
            if let Some(posted) = posted {
                put("was posted", posted.into());
            }
        }
        What::Stalled { qp, wr_id: id, reason: why } => {
            put("queue pair", qp.to_string());
            put("wr_id", wr_id(*id));
            put("waits because", sentence(why));
        }
        What::Executed(executed) => {
            put("queue pair", executed.qp.to_string());
            put("wr_id", wr_id(executed.wr_id));
            put("opcode", executed.opcode.to_string());
            put("status", executed.status.to_string());
            put("moved", bytes(executed.length));
            if let Some(receive) = &executed.receive {
                put("went into the receive", wr_id(receive.wr_id));
                put("of the queue pair", receive.qp.to_string());
            }
            if let Some(why) = &executed.reason {
                put("because", sentence(why));
            }
        }
        What::Completion(done) => {
            put("status", done.status.to_string());
            if done.status == WcStatus::SUCCESS {
                put("opcode", done.opcode.to_string());
                put("byte_len", bytes(done.length.into()));
            }
            put("wr_id", wr_id(done.wr_id));
            put("qp_num", done.qp.to_string());
            put("completion queue", done.cq.to_string());
            if let Some(imm) = done.imm {
                put("imm_data", imm.to_string());
            }
            if done.solicited {
                put("solicited", "yes, the sender asks for an event".into());
            }
            if done.lost {
                put("lost", "the completion queue was full; nobody will poll it".into());
            }
            if let Some(why) = &done.reason {
                put("because", sentence(why));
            }
        }
        What::Polled(polled) => {
            put("completion queue", polled.cq.to_string());
            put("found", completions(polled.found));
            if let Some(empty) = &polled.empty {
                let [first, last] =
                    [empty.first, empty.last].map(|t| duration(entry.t.saturating_sub(t)));
                let which = match empty.count {
                    1 => format!("once, {first} before this"),
                    count => {
                        let count = thousands(count);
                        format!("{count} times, from {first} to {last} before this")
                    }
                };
                put("found nothing", which);
            }
            for Changed { qp, wr_id: id, address, length, unmapped, returned } in &polled.changed {
                let became = match (*unmapped, *returned) {
                    (_, true) => "returned",
                    (true, _) => "unmapped",
                    _ => "changed",
                };
                let of = format!(
                    "{} at {address:#x} of qp {qp}, {}",
                    bytes((*length).into()),
                    wr_id(*id)
                );
                put(&format!("{became} too early"), of);
            }
        }
        What::Wait { on, fd } => {
            put("waits at", channel(*on).into());
            put("descriptor", fd.to_string());
        }
        What::Woken { on, fd, waited, event } => {
            put("has waited at", channel(*on).into());
            put("descriptor", fd.to_string());
            put("for", duration(*waited));
            put("with", if *event { "an event" } else { "nothing, it was interrupted" }.into());
        }
        What::Packet(packet) => {
            put("from", packet.from.clone());
            put("to", packet.to.clone());
            put("to the queue pair", packet.dest_qp.to_string());
            put("psn", packet.psn.to_string());
            put("payload", bytes(packet.length.into()));
            if packet.note == Some(PacketNote::Ack) {
                put("note", "acknowledges all up to its sequence number".into());
            }
            if let Some(why) = of_packet(packet).reason {
                put("note", why);
            }
        }
        What::Dropped { entries } => {
            put("missing", format!("{} entries of this process", thousands(*entries)));
        }
    }
    if let Some(thread) = entry.thread {
        all.push(("thread".into(), thread.to_string()));
    }
    all
}

/// What kind of thing an entry is.
pub(crate) fn kind(entry: &Entry) -> &'static str {
    match &entry.what {
        What::ProcessBegan { .. } => "process begins",
        What::ProcessEnded { .. } => "process ends",
        What::Call(_) => "call",
        What::ConnectionEvent(_) => "event of the connection manager",
        What::AsyncEvent { .. } => "asynchronous event",
        What::SendPosted(_) => "send work request, posted",
        What::ReceivePosted(_) => "receive, posted",
        What::Stalled { .. } => "send work request, has to wait",
        What::Executed(_) => "send work request, executed",
        What::Completion(_) => "completion",
        What::Polled(_) => "poll",
        What::Wait { .. } => "wait",
        What::Woken { .. } => "wait, ended",
        What::Packet(_) => "packet",
        What::Dropped { .. } => "missing entries",
    }
}

/// What polls have found, in a line.
fn polls(polled: &Polled) -> String {
    let found = completions(polled.found);
    let Some(empty) = &polled.empty else { return found };
    match polled.found {
        0 => format!("{found}, {}", often(empty)),
        _ => format!("{found}, before nothing, {}", often(empty)),
    }
}

fn completions(count: u32) -> String {
    match count {
        0 => "nothing".into(),
        1 => "1 completion".into(),
        _ => format!("{} completions", thousands(count.into())),
    }
}

fn pieces(sges: &[Sge]) -> String {
    if sges.is_empty() {
        return "none, the data is inline".into();
    }
    let piece = |sge: &Sge| {
        format!("{} at {:#x}, lkey {:#x}", bytes(sge.length.into()), sge.address, sge.lkey)
    };
    sges.iter().map(piece).collect::<Vec<_>>().join("; ")
}

fn post_receive(queue: ReceiveQueue) -> &'static str {
    match queue {
        ReceiveQueue::Qp(_) => "ibv_post_recv",
        ReceiveQueue::Srq(_) => "ibv_post_srq_recv",
    }
}

fn takes(channel: Channel) -> &'static str {
    match channel {
        Channel::Completion => "ibv_get_cq_event",
        Channel::Connection => "rdma_get_cm_event",
        Channel::Async => "ibv_get_async_event",
    }
}

fn channel(channel: Channel) -> &'static str {
    match channel {
        Channel::Completion => "a completion channel",
        Channel::Connection => "an event channel of the connection manager",
        Channel::Async => "the device's asynchronous events",
    }
}

/// A name with its kind.
/// What an asynchronous event is about: an object, a place, or both.
pub(crate) fn about(event: &What) -> String {
    let What::AsyncEvent { element, place, .. } = event else { return String::new() };
    let element = element.as_ref().map(name);
    element.into_iter().chain(place.clone()).collect::<Vec<_>>().join(", ")
}

fn name(name: &Name) -> String {
    format!("{} {name}", name.kind())
}

fn wr_id(id: u64) -> String {
    Name::WrId(id).to_string()
}

/// An opcode without its beginning.
pub(crate) fn short_opcode(opcode: WrOpcode) -> String {
    opcode.short_name().map_or_else(|| opcode.to_string(), |name| name.replace('_', " "))
}

/// A number of bytes.
pub(crate) fn bytes(bytes: u64) -> String {
    format!("{} B", thousands(bytes))
}

/// A number with its digits in groups of three, so that it can be read.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    if digits.len() <= 4 { digits } else { text }
}

/// A command line. Words that hold a space are in quotation marks.
pub(crate) fn command_line(words: &[String]) -> String {
    let quoted = |word: &String| match word.is_empty() || word.contains(char::is_whitespace) {
        true => format!("\"{word}\""),
        false => word.clone(),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Run;

    #[test]
    fn polls_have_found_something_or_nothing() {
        let mut run = Run::new();
        run.polls(0, 1, 0).polls(0, 2, 1).polls(0, 0, 12_345);
        let lines = run.entries().iter().map(|entry| label(entry).rest).collect::<Vec<_>>();
        let often = "12345 times in 400 ns";
        assert_eq!(
            lines,
            ["1 completion", "2 completions, before nothing, once", &format!("nothing, {often}")]
        );
        let told = members(&run.entries()[2]);
        let told: Vec<_> = told.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let when = "12\u{2009}345 times, from 500 ns to 100 ns before this";
        let expected = [
            ("completion queue", "1"),
            ("found", "nothing"),
            ("found nothing", when),
            ("thread", "4720"),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn numbers_can_be_read() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(4096), "4096");
        assert_eq!(thousands(65_536), "65\u{2009}536");
        assert_eq!(thousands(1_000_000), "1\u{2009}000\u{2009}000");
    }
}
