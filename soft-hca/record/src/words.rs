//! Values of entries in words, and an entry as pictures show it: a line, and all its fields.

use std::net::Ipv6Addr;

use soft_hca_roce::wire::headers::NakCode;
use soft_hca_verbs::{Cause, WrOpcode};

use crate::cause::sentence;
use crate::description::{Description, Field, Place, Value};
use crate::entry::{Channel, EmptyPolls, Entry, Failure, Ignored, PacketNote, Retransmission, Sge};
pub(crate) use crate::time::duration;
use crate::value::{self, Name, Named};

/// Names for numbers.
pub(crate) trait Names {
    /// A number of a process.
    fn name(&mut self, process: u32, name: Name) -> String;

    /// A process.
    fn process(&self, process: u32) -> String;

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

    /// Why a work request waits or has failed.
    fn cause(&self, cause: &Cause) -> String {
        sentence(cause)
    }
}

/// Numbers as they are.
#[derive(Clone, Copy, Debug, Default)]
struct AsTheyAre;

impl Names for AsTheyAre {
    fn name(&mut self, _process: u32, name: Name) -> String {
        name.to_string()
    }

    fn process(&self, process: u32) -> String {
        format!("process {process}")
    }
}

impl Value<'_> {
    /// As a line of text has it, of a process's entry.
    pub(crate) fn text(&self, process: u32, names: &mut impl Names) -> String {
        match self {
            Self::Name(name) => names.name(process, *name),
            Self::GidIndex(index) => names.gid_index(*index),
            Self::Imm(imm) => names.imm(*imm),
            Self::Number(number) => number.to_string(),
            Self::Unsigned(number) => number.to_string(),
            Self::Word(text) | Self::Text(text) => names.text(text),
            Self::Opcode(opcode) => opcode.to_string(),
            Self::Null => value::Value::None.to_string(),
            Self::Bytes(bytes) => format!("{bytes} bytes"),
            Self::Duration(ns) => duration(*ns),
            Self::Memory(sges) => {
                let sge = |sge: &Sge| {
                    let address = names.name(process, Name::Address(sge.address));
                    let lkey = names.name(process, Name::Key(sge.lkey));
                    format!("{address}/{} lkey={lkey}", sge.length)
                };
                format!("[{}]", sges.iter().map(sge).collect::<Vec<_>>().join(", "))
            }
            Self::Command(words) => words.join(" "),
            Self::Error(error) => error.to_string(),
            Self::Refusal(check, values) => {
                let text = |value: &value::Value| match value {
                    value::Value::Name(name) => names.name(process, *name),
                    value::Value::Text(text) => names.text(text),
                    other => other.to_string(),
                };
                format!("{check}{}", compared(values, text))
            }
            Self::Cause(cause) => names.cause(cause),
            Self::Receive(receive) => {
                let qp = names.name(receive.process, Name::Qp(receive.qp));
                let wr_id = names.name(receive.process, Name::WrId(receive.wr_id));
                format!("qp={qp} wr_id={wr_id} of {}", names.process(receive.process))
            }
            Self::Found(found) => found.to_string(),
            Self::Empty(empty, true) => format!("before 0, {}", often(empty)),
            Self::Empty(empty, false) => often(empty),
            Self::Changed(changed) => {
                let qp = names.name(process, Name::Qp(changed.qp));
                let wr_id = names.name(process, Name::WrId(changed.wr_id));
                let address = names.name(process, Name::Address(changed.address));
                let became = match (changed.unmapped, changed.returned) {
                    (_, true) => "was a variable of a function that has returned",
                    (true, _) => "is unmapped",
                    _ => "has changed",
                };
                format!("[{address}/{}] of qp={qp} wr_id={wr_id} {became}", changed.length)
            }
            Self::Channel(channel, fd) => match channel {
                Channel::Completion => {
                    format!("completion channel {}", names.name(process, Name::Channel(*fd)))
                }
                Channel::Connection => {
                    format!("event channel {}", names.name(process, Name::EventChannel(*fd)))
                }
                Channel::Async => "asynchronous events".into(),
            },
            Self::Note(note) => match note {
                PacketNote::Retransmission(why) => format!("again: {}", again(*why)),
                PacketNote::Ack => "ACK".into(),
                PacketNote::RnrNak(wait) => format!("RNR NAK {}", duration(*wait)),
                PacketNote::Nak(code) => format!("NAK: {}", refused(*code)),
                PacketNote::Ignored(Ignored::NoQueuePair) => {
                    "ignored: no queue pair takes it".into()
                }
                PacketNote::Ignored(Ignored::OtherAddress) => {
                    "ignored: the queue pair is connected to another address".into()
                }
            },
            Self::Missing(entries) => format!("{entries} entries are missing from here"),
        }
    }

    /// As pictures have it.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Word(text) => text.replace('|', " | "),
            Self::Unsigned(number) => thousands(*number),
            Self::Bytes(count) => bytes(*count),
            Self::Memory(sges) => {
                let sge = |sge: &Sge| {
                    let length = bytes(sge.length.into());
                    format!("{length} at {:#x}, lkey {:#x}", sge.address, sge.lkey)
                };
                sges.iter().map(sge).collect::<Vec<_>>().join("; ")
            }
            Self::Command(words) => command_line(words),
            Self::Error(error) => format!("{error} ({})", error.number()),
            Self::Receive(receive) => {
                format!("wr_id {} of qp {}", Name::WrId(receive.wr_id), receive.qp)
            }
            Self::Found(0) => "nothing".into(),
            Self::Found(1) => "1 completion".into(),
            Self::Found(found) => format!("{} completions", thousands((*found).into())),
            Self::Empty(empty, true) => format!("before nothing, {}", often(empty)),
            other => other.text(0, &mut AsTheyAre),
        }
    }
}

impl Field<'_> {
    /// As short as it can be; constants speak for themselves.
    fn brief(&self) -> String {
        match &self.value {
            Value::Opcode(opcode) => short_opcode(*opcode),
            Value::Word(text) => short_gid(text),
            Value::Duration(ns) => format!("after {}", duration(*ns)),
            value if self.is_named => format!("{} {}", self.name, value.words()),
            value => value.words(),
        }
    }
}

/// Fields as short as they can be.
fn brief<'f>(fields: impl Iterator<Item = &'f Field<'f>>) -> String {
    let mut text = String::new();
    let mut is_open = false;
    for field in fields.filter(|field| !matches!(field.value, Value::Null)) {
        let is_own = is_open || matches!(field.value, Value::Duration(_));
        text += if text.is_empty() {
            ""
        } else if is_own {
            " "
        } else {
            ", "
        };
        text += &field.brief();
        is_open = matches!(field.value, Value::Opcode(_));
    }
    text
}

/// An entry as a line of a picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Label {
    /// The function's or the event's name.
    pub(crate) name: String,
    /// The rest of the line, as far as it fits.
    pub(crate) rest: String,
    /// The results of a call, which come behind that and are worth more.
    pub(crate) result: String,
    /// The reason, if it is a failure or has to wait.
    pub(crate) reason: Option<String>,
}

/// An entry as a line.
pub(crate) fn label(entry: &Entry) -> Label {
    let said = Description::of(entry);
    let all = |wanted: Place| {
        let fields = said.fields().filter(move |(place, _)| *place == wanted);
        fields.map(|(_, field)| field)
    };
    let named =
        |name: &&str| said.fields().map(|(_, field)| field).find(|field| field.name == *name);
    let mut rest = match said.brief {
        Some(names) => brief(names.iter().filter_map(named)),
        None => brief(all(Place::Argument)),
    };
    let error = said.error();
    if let Some(error) = error {
        rest = format!("{error}; {rest}");
    }
    // The first value matters most among the results of a call.
    let result = all(Place::Result).next().filter(|_| said.brief.is_none() && error.is_none());
    let result = result.map_or(String::new(), |given| match given.is_named {
        true => format!("\u{2192} {}", given.brief()),
        false => given.brief(),
    });
    Label { name: said.name.to_string(), rest, result, reason: said.reason() }
}

impl Description<'_> {
    /// How a call has failed.
    fn error(&self) -> Option<Failure> {
        self.fields().find_map(|(_, field)| match field.value {
            Value::Error(error) => Some(error),
            _ => None,
        })
    }

    /// Why it is a failure or has to wait.
    fn reason(&self) -> Option<String> {
        let mut fields = self.fields().map(|(_, field)| &field.value);
        let reason = fields.find_map(|value| match value {
            Value::Note(PacketNote::Ack) => None,
            Value::Cause(_) | Value::Refusal(..) | Value::Note(_) => Some(value.words()),
            _ => None,
        });
        match self.error() {
            Some(error) => {
                Some(format!("{error}: {}", reason.as_deref().unwrap_or("the call is refused")))
            }
            None => reason,
        }
    }
}

/// All of an entry, as names and values.
pub(crate) fn members(entry: &Entry) -> Vec<(String, String)> {
    let said = Description::of(entry);
    let member = |(place, field): (Place, &Field<'_>)| {
        let name = match place == Place::Result && field.is_named {
            true => format!("gives {}", field.name),
            false => field.name.to_owned(),
        };
        (name, field.value.words())
    };
    let thread = entry.thread.map(|thread| ("thread".into(), thread.to_string()));
    said.fields().map(member).chain(thread).collect()
}

/// Why a packet is sent again.
fn again(why: Retransmission) -> &'static str {
    match why {
        Retransmission::Timeout => "no acknowledgement has come in time",
        Retransmission::ReceiverNotReady => "the receiver was not ready",
        Retransmission::Nak(code) => refused(code),
    }
}

/// Why a packet was refused.
fn refused(code: NakCode) -> &'static str {
    match code {
        NakCode::PsnSequence => "PSN sequence error, packets before it are missing",
        NakCode::InvalidRequest => "invalid request",
        NakCode::RemoteAccess => "remote access error",
        NakCode::RemoteOperational => "remote operational error",
        NakCode::InvalidRd => "invalid reliable datagram",
    }
}

/// A GID as IPv6 addresses are written, with its zeros left out.
fn short_gid(text: &str) -> String {
    text.parse().map_or_else(|_| text.into(), |gid: Ipv6Addr| gid.to_string())
}

/// The values of a check behind its words.
pub(crate) fn compared(values: &[Named], mut text: impl FnMut(&value::Value) -> String) -> String {
    let word = |Named(name, value): &Named| match name.as_str() {
        "more" => format!("{} more", text(value)),
        name => format!("{name} {}", text(value)),
    };
    match values {
        [] => String::new(),
        values => format!(": {}", values.iter().map(word).collect::<Vec<_>>().join(", ")),
    }
}

/// So many of something.
pub(crate) fn times(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

/// Each of them once, in the order in which they come, with how often it does.
pub(crate) fn counted<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<(T, u64)> {
    let mut counted: Vec<(T, u64)> = Vec::new();
    for one in all {
        match counted.iter_mut().find(|(known, _)| *known == one) {
            Some((_, count)) => *count += 1,
            None => counted.push((one, 1)),
        }
    }
    counted
}

/// A text without its numbers, by which what is told again is known.
pub(crate) fn without_numbers(text: &str) -> String {
    let is_word = |word: &&str| !word.contains(|c: char| c.is_ascii_digit());
    text.split([' ', '=']).filter(is_word).collect::<Vec<_>>().join(" ")
}

/// How often polls have found nothing.
fn often(empty: &EmptyPolls) -> String {
    match empty.count {
        1 => "once".into(),
        count => format!("{count} times in {}", duration(empty.duration())),
    }
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
    use crate::file::samples::{EVERY, SAMPLE, read};
    use crate::perfetto;
    use crate::testing::Run;
    use crate::text::Text;

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
        let expected = [("cq", "1"), ("found", "nothing"), ("empty", often), ("thread", "4720")];
        assert_eq!(told, expected);
    }

    #[test]
    fn numbers_can_be_read() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(4096), "4096");
        assert_eq!(thousands(65_536), "65\u{2009}536");
        assert_eq!(thousands(1_000_000), "1\u{2009}000\u{2009}000");
    }

    /// Names in front of values in a line, but for `lkey`, which is in one.
    fn named(line: &str) -> impl Iterator<Item = &str> {
        let words = line.split([' ', ',', '(']).filter(|word| !word.starts_with('['));
        let names = words.filter_map(|word| word.split_once('=')).map(|(name, _)| name);
        names.filter(|name| !["", "lkey"].contains(name))
    }

    #[test]
    fn a_value_has_one_name_in_all_views() {
        for record in [SAMPLE, EVERY] {
            let (header, entries) = read(record);
            let trace = perfetto::trace(&header, &entries);
            let (trace, mut text) = (String::from_utf8_lossy(&trace), Text::new());
            for entry in &entries {
                let members = members(entry);
                let line = text.line(entry);
                for name in named(&line) {
                    let is_it =
                        |(of, _): &(String, String)| of.trim_start_matches("gives ") == name;
                    assert!(members.iter().any(is_it), "{name} of {line} is none of {members:?}");
                    assert!(trace.contains(name), "{name} of {line}");
                }
            }
        }
    }
}
