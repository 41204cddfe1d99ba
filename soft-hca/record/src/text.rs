//! A record as text: a line for each entry, as strace has it for system calls.

use std::collections::HashMap;
use std::fmt::Write;

use soft_hca_verbs::{Cause, WcStatus};

use crate::calls::{self, Made};
use crate::entry::{
    Call, Changed, Channel, Completion, ConnectionEvent, Direction, EmptyPolls, Entry, Executed,
    Outcome, Packet, PacketNote, Polled, ReceivePosted, ReceiveQueue, Role, Seen, SendPosted, Sge,
    What,
};
pub(crate) use crate::time::duration;
use crate::value::{Name, Named, Value};
use crate::{cause, connection};

/// What numbers are called.
pub(crate) trait Names {
    /// A number of a process.
    fn name(&mut self, process: u32, name: Name) -> String;

    /// A word, which may be a GID or a socket's address.
    fn text(&mut self, text: &str) -> String {
        text.into()
    }

    /// An index in the device's table of GIDs.
    fn gid_index(&mut self, index: i64) -> String {
        index.to_string()
    }

    /// Immediate data.
    fn imm(&mut self, imm: u32) -> String {
        format!("{imm:#x}")
    }
}

/// Numbers as they are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AsTheyAre;

impl Names for AsTheyAre {
    fn name(&mut self, _process: u32, name: Name) -> String {
        name.to_string()
    }
}

/// Makes lines of entries, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// Name and id of each process.
    processes: HashMap<u32, String>,
}

impl Text {
    /// At the beginning of a record.
    pub fn new() -> Self {
        Self::default()
    }

    /// The line of an entry, with its end.
    pub fn line(&mut self, entry: &Entry) -> String {
        if let What::ProcessBegan { pid, role, command, .. } = &entry.what {
            let label = format!("{}[{pid}]", short_name(*role, command));
            self.processes.insert(entry.process, label);
        }
        let who = self.who(entry.process);
        let by = entry.by.map_or(String::new(), |by| format!(" (by {})", self.who(by)));
        let what = describe(entry.process, &entry.what, &mut AsTheyAre, Style::Full, |process| {
            self.who(process)
        });
        format!("{} {who} {what}{by}\n", time(entry.t))
    }

    /// The lines of a whole record, with calls as their programs made them: each is one line, or two if it
    /// has waited, with the place in the source behind it; the commands that a library makes of it
    /// are counted only. What becomes of requests stands as in [`Text::line`].
    pub fn calls(&mut self, entries: &[Entry]) -> String {
        let calls = calls::made(entries);
        let mut of: HashMap<usize, &Made> = HashMap::new();
        for call in &calls {
            of.extend(call.entries.iter().map(|index| (*index, call)));
        }
        let mut out = String::new();
        for (index, entry) in entries.iter().enumerate() {
            match of.get(&index) {
                Some(call) => self.part_of_call(call, (entries, index), &mut out),
                None => out += &self.line(entry),
            }
        }
        out
    }

    /// What an entry of a call adds: a line for the call where that begins, and another one where it
    /// ends if it has waited.
    fn part_of_call(&mut self, call: &Made, (entries, index): (&[Entry], usize), out: &mut String) {
        let entry = &entries[index];
        let is_first = call.entries.first() == Some(&index);
        let place = call.place(entries).map_or(String::new(), |place| format!(", in {place}"));
        let waits = call.waits(entries);
        let what = match &entry.what {
            What::SendPosted(_) | What::ReceivePosted(_) | What::Polled(_) => {
                let line = self.line(entry);
                // A list of requests is posted by one call.
                let place = if is_first { place } else { String::new() };
                *out += &format!("{}{place}\n", line.trim_end());
                return;
            }
            _ if waits && is_first && call.entries.len() > 1 => {
                format!("{} waits", self.asked(entry.process, call, entries))
            }
            _ if waits && call.entries.last() != Some(&index) => return,
            _ if !waits && !is_first => return,
            _ => self.call(entry.process, call, entries),
        };
        let who = self.who(entry.process);
        *out += &format!("{} {who} {what}{place}\n", time(entry.t));
    }

    /// A call with its arguments.
    fn asked(&self, process: u32, call: &Made, entries: &[Entry]) -> String {
        let mut names = AsTheyAre;
        let mut line = Line { process, names: &mut names, style: Style::Full, text: String::new() };
        let args = match (call.main(entries), call.channel(entries)) {
            (Some(main), _) => line.list(&main.args),
            (None, Some(fd)) => format!("channel={fd}"),
            (None, None) => String::new(),
        };
        format!("{}({args})", call.function(entries))
    }

    /// A call with what it gives.
    fn call(&self, process: u32, call: &Made, entries: &[Entry]) -> String {
        let mut names = AsTheyAre;
        let text = match call.waits(entries) && call.entries.len() > 1 {
            // Its arguments were told when it began.
            true => format!("{}(...)", call.function(entries)),
            false => self.asked(process, call, entries),
        };
        let mut line = Line { process, names: &mut names, style: Style::Full, text };
        if call.is_open(entries) {
            line.put(" does not return");
            return line.text;
        }
        let main = call.main(entries);
        match (call.refused(entries), call.event(entries), main) {
            (Some(refused), ..) => line.result(refused),
            (None, Some(event), _) => {
                line.put(" = ");
                line.connection_event(&event);
            }
            (None, None, Some(main)) => line.result(main),
            (None, None, None) => {}
        }
        line.put(&format!(" <{}>", duration(call.duration(entries))));
        match (call.others(entries), main) {
            (0, _) => {}
            (1, Some(_)) => line.put(" with 1 more command"),
            (others, Some(_)) => line.put(&format!(" with {others} more commands")),
            (1, None) => line.put(" with 1 command"),
            (others, None) => line.put(&format!(" with {others} commands")),
        }
        line.text
    }

    fn who(&self, process: u32) -> String {
        self.processes.get(&process).cloned().unwrap_or_else(|| format!("process {process}"))
    }
}

/// A time of the record, in seconds.
fn time(t: u64) -> String {
    let (seconds, micros) = (t / 1_000_000_000, t % 1_000_000_000 / 1000);
    format!("{seconds:4}.{micros:06}")
}

/// What a process is called: its program without the folder.
pub(crate) fn short_name(role: Role, command: &[String]) -> String {
    match (role, command.first()) {
        (Role::Daemon, _) => "soft-hca".into(),
        (Role::Program, Some(program)) => {
            program.rsplit('/').next().unwrap_or(program.as_str()).into()
        }
        (Role::Program, None) => "?".into(),
    }
}

/// How much a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// All.
    Full,
    /// Not what is different in every run.
    Stable,
}

/// The values of a check behind its words.
pub(crate) fn compared(values: &[Named], mut text: impl FnMut(&Value) -> String) -> String {
    let word = |Named(name, value): &Named| match name.as_str() {
        "more" => format!("{} more", text(value)),
        name => format!("{name} {}", text(value)),
    };
    match values {
        [] => String::new(),
        values => format!(": {}", values.iter().map(word).collect::<Vec<_>>().join(", ")),
    }
}

/// Until when a call does not return.
pub(crate) fn waits_for_acknowledgements(call: &Call) -> String {
    let events = match call.unacknowledged {
        1 => "1 event is".into(),
        events => format!("{events} events are"),
    };
    format!("does not return until {events} acknowledged")
}

/// How often polls have found nothing.
pub(crate) fn often(empty: &EmptyPolls) -> String {
    match empty.count {
        1 => "once".into(),
        count => format!("{count} times in {}", duration(empty.duration())),
    }
}

/// What an entry says, without time and process.
pub(crate) fn describe(
    process: u32,
    what: &What,
    names: &mut impl Names,
    style: Style,
    who: impl Fn(u32) -> String,
) -> String {
    let mut line = Line { process, names, style, text: String::new() };
    match what {
        What::ProcessBegan { command, host, .. } => {
            line.put("begins");
            if !command.is_empty() {
                line.put(&format!(": {}", command.join(" ")));
            }
            if let Some(host) = host {
                line.put(&format!(" on {host}"));
            }
        }
        What::ProcessEnded { .. } => line.put("ends"),
        What::Call(call) => line.call(call),
        What::ConnectionEvent(event) => line.connection_event(event),
        What::AsyncEvent { event, element, place } => {
            let element = element.map(|name| format!("{} {}", name.kind(), line.name(name)));
            let about: Vec<String> = element.into_iter().chain(place.clone()).collect();
            line.put(&format!("{event} {}", about.join(", ")));
        }
        What::SendPosted(posted) => line.send_posted(posted),
        What::ReceivePosted(posted) => line.receive_posted(posted),
        What::Stalled { qp, wr_id, reason } => {
            line.request(*qp, *wr_id);
            line.put("waits: ");
            line.reason(reason);
        }
        What::Executed(executed) => line.executed(executed, who),
        What::Completion(completion) => line.completion(completion),
        What::Polled(polled) => line.polled(polled),
        What::Wait { on, fd } => {
            let channel = line.channel(*on, *fd);
            line.put(&format!("waits at {channel}"));
        }
        What::Woken { on, fd, waited: 0, event: true } => {
            let channel = line.channel(*on, *fd);
            line.put(&format!("takes an event at {channel}"));
        }
        What::Woken { on, fd, waited, event } => {
            let channel = line.channel(*on, *fd);
            let how = if *event { "goes on" } else { "is interrupted" };
            line.put(&format!("{how} at {channel} after {}", duration(*waited)));
        }
        What::Packet(packet) => line.packet(packet),
        What::Dropped { entries } => line.put(&format!("{entries} entries are missing from here")),
    }
    line.text
}

struct Line<'n, N> {
    process: u32,
    names: &'n mut N,
    style: Style,
    text: String,
}

impl<N: Names> Line<'_, N> {
    fn put(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn name(&mut self, name: Name) -> String {
        self.names.name(self.process, name)
    }

    fn value(&mut self, value: &Value) -> String {
        match value {
            Value::Name(name) => self.name(*name),
            Value::Text(text) => self.names.text(text),
            other => other.to_string(),
        }
    }

    fn list(&mut self, values: &[Named]) -> String {
        let mut words = Vec::new();
        for Named(name, value) in values {
            let value = match value {
                Value::Number(index) if name == "sgid_index" => self.names.gid_index(*index),
                value => self.value(value),
            };
            words.push(format!("{name}={value}"));
        }
        words.join(", ")
    }

    fn call(&mut self, call: &Call) {
        let args = self.list(&call.args);
        self.put(&format!("{}({args})", call.name));
        self.result(call);
        if self.style == Style::Full && call.unacknowledged == 0 {
            self.put(&format!(" <{}>", duration(call.duration)));
        }
    }

    /// What it gives.
    fn result(&mut self, call: &Call) {
        match &call.result {
            Outcome::Done(_) if call.unacknowledged > 0 => {
                self.put(&format!(" {}", waits_for_acknowledgements(call)));
            }
            Outcome::Done(values) if values.is_empty() => self.put(" = 0"),
            Outcome::Done(values) => {
                let values = self.list(values);
                self.put(&format!(" = {values}"));
            }
            Outcome::Refused { error, reason, values } => {
                self.put(&format!(" = {error}"));
                if let Some(reason) = reason {
                    let values = compared(values, |value| self.value(value));
                    self.put(&format!(" ({reason}{values})"));
                }
            }
        }
    }

    fn connection_event(&mut self, event: &ConnectionEvent) {
        let id = self.name(Name::CmId(event.id));
        self.put(&format!("{} id={id}", event.event));
        if let Some(listen_id) = event.listen_id {
            let listen_id = self.name(Name::CmId(listen_id));
            self.put(&format!(", listen_id={listen_id}"));
        }
        if event.status != 0 {
            let status = connection::status(event.event, event.status);
            self.put(&format!(", status={status}"));
        }
        if let Some(qp) = event.qp {
            let qp = self.name(Name::Qp(qp));
            self.put(&format!(", qp_num={qp}"));
        }
        if event.private_data > 0 {
            self.put(&format!(", private_data_len={}", event.private_data));
        }
    }

    fn sges(&mut self, sges: &[Sge]) {
        let mut words = Vec::new();
        for sge in sges {
            let address = self.name(Name::Address(sge.address));
            let lkey = self.name(Name::Key(sge.lkey));
            words.push(format!("{address}/{} lkey={lkey}", sge.length));
        }
        if !words.is_empty() {
            self.put(&format!(" [{}]", words.join(", ")));
        }
    }

    fn request(&mut self, qp: u32, wr_id: u64) {
        let (qp, wr_id) = (self.name(Name::Qp(qp)), self.name(Name::WrId(wr_id)));
        self.put(&format!("qp={qp} wr_id={wr_id} "));
    }

    fn send_posted(&mut self, posted: &SendPosted) {
        self.put("ibv_post_send(");
        let (qp, wr_id) = (self.name(Name::Qp(posted.qp)), self.name(Name::WrId(posted.wr_id)));
        self.put(&format!("qp={qp}, wr_id={wr_id}, {}", posted.opcode));
        if !posted.flags.is_empty() {
            self.put(&format!(", {}", posted.flags));
        }
        self.put(&format!(", {} bytes", posted.length));
        self.sges(&posted.sges);
        if let Some(remote) = posted.remote {
            let address = self.name(Name::Address(remote.address));
            let rkey = self.name(Name::Key(remote.rkey));
            self.put(&format!(", remote_addr={address}, rkey={rkey}"));
        }
        if let Some(imm) = posted.imm {
            let imm = self.names.imm(imm);
            self.put(&format!(", imm={imm}"));
        }
        if let Some(key) = posted.invalidate {
            let key = self.name(Name::Key(key));
            self.put(&format!(", invalidate={key}"));
        }
        if let Some(value) = posted.compare_add {
            self.put(&format!(", compare_add={value}"));
        }
        if let Some(value) = posted.swap {
            self.put(&format!(", swap={value}"));
        }
        if let Some(flush) = &posted.flush {
            self.put(&format!(", {}, {}", flush.placement, flush.selectivity));
        }
        if let Some(to) = &posted.destination {
            let qp = match to.qp {
                0xff_ffff => "group".into(),
                qp => self.name(Name::Qp(qp)),
            };
            let gid = self.names.text(&to.gid);
            self.put(&format!(", to qp={qp} gid={gid} qkey={:#x}", to.qkey));
        }
        self.put(")");
    }

    fn receive_posted(&mut self, posted: &ReceivePosted) {
        let queue = match posted.queue {
            ReceiveQueue::Qp(qp) => format!("ibv_post_recv(qp={}", self.name(Name::Qp(qp))),
            ReceiveQueue::Srq(srq) => {
                format!("ibv_post_srq_recv(srq={}", self.name(Name::Srq(srq)))
            }
        };
        let wr_id = self.name(Name::WrId(posted.wr_id));
        self.put(&format!("{queue}, wr_id={wr_id}, {} bytes", posted.length));
        self.sges(&posted.sges);
        self.put(")");
        if self.style == Style::Full {
            self.put(match posted.seen {
                Seen::AtPost => "",
                Seen::AtCall => " some time before this",
                Seen::AtMessage => " some time before this message",
            });
        }
    }

    fn executed(&mut self, executed: &Executed, who: impl Fn(u32) -> String) {
        self.request(executed.qp, executed.wr_id);
        self.put(&executed.opcode.to_string());
        if executed.status != WcStatus::SUCCESS {
            self.put(&format!(" fails: {}", executed.status));
        } else {
            self.put(&format!(" is executed, {} bytes", executed.length));
        }
        if let Some(receive) = executed.receive {
            let qp = self.names.name(receive.process, Name::Qp(receive.qp));
            let wr_id = self.names.name(receive.process, Name::WrId(receive.wr_id));
            let who = who(receive.process);
            self.put(&format!(", into the receive qp={qp} wr_id={wr_id} of {who}"));
        }
        if let Some(reason) = &executed.reason {
            self.put(": ");
            self.reason(reason);
        }
    }

    fn completion(&mut self, completion: &Completion) {
        let cq = self.name(Name::Cq(completion.cq));
        self.put(&format!("completion in cq={cq}: "));
        self.request(completion.qp, completion.wr_id);
        if completion.status == WcStatus::SUCCESS {
            self.put(&format!("{}, {} bytes", completion.opcode, completion.length));
        } else {
            self.put(&completion.status.to_string());
        }
        if let Some(imm) = completion.imm {
            let imm = self.names.imm(imm);
            self.put(&format!(", imm={imm}"));
        }
        if completion.solicited {
            self.put(", solicited");
        }
        if completion.lost {
            self.put(", lost: the queue is full");
        }
        if let Some(reason) = completion.reason.as_ref().filter(|r| **r != Cause::Flushed) {
            self.put(": ");
            self.reason(reason);
        }
    }

    fn polled(&mut self, polled: &Polled) {
        let cq = self.name(Name::Cq(polled.cq));
        self.put(&format!("{}(cq={cq}) = {}", polled.function(), polled.found));
        match polled.empty {
            Some(empty) if polled.found > 0 => self.put(&format!(" (before 0, {})", often(&empty))),
            Some(empty) if empty.count > 1 => self.put(&format!(" ({})", often(&empty))),
            _ => {}
        }
        for Changed { qp, wr_id, address, length, unmapped, returned } in &polled.changed {
            let (qp, wr_id) = (self.name(Name::Qp(*qp)), self.name(Name::WrId(*wr_id)));
            let address = self.name(Name::Address(*address));
            let became = match (*unmapped, *returned) {
                (_, true) => "was a variable of a function that has returned",
                (true, _) => "is unmapped",
                _ => "has changed",
            };
            self.put(&format!(", and [{address}/{length}] of qp={qp} wr_id={wr_id} {became}"));
        }
    }

    fn channel(&mut self, channel: Channel, fd: u32) -> String {
        match channel {
            Channel::Completion => {
                format!("completion channel {}", self.name(Name::Channel(fd)))
            }
            Channel::Connection => {
                format!("event channel {}", self.name(Name::EventChannel(fd)))
            }
            Channel::Async => "asynchronous events".into(),
        }
    }

    fn packet(&mut self, packet: &Packet) {
        let direction = match packet.direction {
            Direction::Sent => "sent",
            Direction::Received => "received",
        };
        let qp = self.name(Name::Qp(packet.dest_qp));
        let psn = self.name(Name::Psn(packet.psn));
        let Packet { from, to, opcode, length, .. } = packet;
        let _ = write!(
            self.text,
            "packet {direction} {from} > {to} {opcode} qp={qp} psn={psn}, {length} bytes"
        );
        match &packet.note {
            None => {}
            Some(PacketNote::Retransmission(why)) => self.put(&format!(", again: {why}")),
            Some(PacketNote::Ack) => self.put(", ACK"),
            Some(PacketNote::RnrNak(wait)) => self.put(&format!(", RNR NAK {}", duration(*wait))),
            Some(PacketNote::Nak(why)) => self.put(&format!(", NAK: {why}")),
            Some(PacketNote::Ignored(why)) => self.put(&format!(", ignored: {why}")),
        }
    }

    fn reason(&mut self, reason: &Cause) {
        match self.style {
            Style::Full => self.put(&cause::sentence(reason)),
            Style::Stable => self.put(cause::check(reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Run;

    fn lines(run: &Run) -> Vec<String> {
        let mut text = Text::new();
        let lines = run.entries().iter().map(|entry| text.line(entry));
        lines.map(|line| line.split_once("process 0 ").unwrap().1.trim_end().to_owned()).collect()
    }

    #[test]
    fn only_receives_that_were_seen_late_say_so() {
        let mut run = Run::new();
        run.receive(0, "at_post").receive(0, "at_call").receive(0, "at_message");
        let lines = lines(&run);
        assert!(lines[0].ends_with("lkey=0x181])"), "{}", lines[0]);
        assert_eq!(lines[1], format!("{} some time before this", lines[0]));
        assert_eq!(lines[2], format!("{} some time before this message", lines[0]));
    }

    #[test]
    fn polls_say_how_often_they_have_found_nothing() {
        let mut run = Run::new();
        run.polls(0, 2, 0).polls(0, 1, 1).polls(0, 1, 9).polls(0, 0, 1).polls(0, 0, 9);
        let extended = json!({"cq": 1, "found": 3, "extended": true});
        run.put(1, 0, "polled", extended);
        let expected = [
            "ibv_poll_cq(cq=1) = 2",
            "ibv_poll_cq(cq=1) = 1 (before 0, once)",
            "ibv_poll_cq(cq=1) = 1 (before 0, 9 times in 400 ns)",
            "ibv_poll_cq(cq=1) = 0",
            "ibv_poll_cq(cq=1) = 0 (9 times in 400 ns)",
            "ibv_start_poll(cq=1) = 3",
        ];
        assert_eq!(lines(&run), expected);
    }

    #[test]
    fn polls_say_which_buffers_have_changed() {
        let mut run = Run::new();
        let changed = json!([
            {"qp": 17, "wr_id": 1, "address": 4096, "length": 8},
            {"qp": 17, "wr_id": 2, "address": 8192, "length": 16, "unmapped": true},
        ]);
        run.put(1, 0, "polled", json!({"cq": 1, "found": 2, "changed": changed}));
        let expected = "ibv_poll_cq(cq=1) = 2, and [0x1000/8] of qp=17 wr_id=1 has changed, and [0x2000/16] of \
                        qp=17 wr_id=2 is unmapped";
        assert_eq!(lines(&run), [expected]);
    }
}
