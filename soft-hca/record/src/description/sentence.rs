//! Sentences with fields, and how they are put together.

use std::borrow::Cow;

use soft_hca_verbs::{Cause, Refusal, WrOpcode};

use crate::entry::{Changed, Channel, EmptyPolls, Failure, MatchedReceive, PacketNote, Sge};
use crate::value::{self, Name, Named};

/// A value of a field.
#[derive(Clone, Debug)]
pub(crate) enum Value<'e> {
    /// A number that names something of the entry's process.
    Name(Name),
    /// An index in the device's table of GIDs.
    GidIndex(i64),
    /// Immediate data, in host byte order.
    Imm(u32),
    /// Any other number.
    Number(i64),
    /// A number without a sign.
    Unsigned(u64),
    /// A constant of the verbs, flags or an address, which need no name beside them.
    Word(Cow<'e, str>),
    /// Any other text.
    Text(Cow<'e, str>),
    /// An opcode of a send work request.
    Opcode(WrOpcode),
    /// A null pointer.
    Null,
    /// A number of bytes.
    Bytes(u64),
    /// Nanoseconds.
    Duration(u64),
    /// The SGEs of a work request.
    Memory(&'e [Sge]),
    /// A command line.
    Command(&'e [String]),
    /// How a call fails.
    Error(Failure),
    /// The check that has refused a call, and the values that it has compared.
    Refusal(Refusal, &'e [Named]),
    /// Why a work request waits or has failed.
    Cause(&'e Cause),
    /// The receive that a message has gone into.
    Receive(MatchedReceive),
    /// Completions that a poll has found.
    Found(u32),
    /// Polls that have found nothing, and whether one that has found something is behind them.
    Empty(&'e EmptyPolls, bool),
    /// A buffer that was changed too early.
    Changed(&'e Changed),
    /// A channel, and its descriptor.
    Channel(Channel, u32),
    /// The note of a packet.
    Note(&'e PacketNote),
    /// So many entries are missing.
    Missing(u64),
}

impl From<Name> for Value<'_> {
    fn from(name: Name) -> Self {
        Self::Name(name)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Unsigned(number.into())
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl<'e> From<&'e str> for Value<'e> {
    fn from(text: &'e str) -> Self {
        Self::Text(text.into())
    }
}

/// The role of a part in its sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The function, or the request that the entry is about.
    Subject,
    /// Arguments of a call; of other entries all that is neither of the others.
    Argument,
    /// Results of a call.
    Result,
    /// Values that differ from run to run, such as a duration.
    Aside,
    /// Values beside the sentence, for views that show all fields.
    Detail,
}

/// A value with its name.
#[derive(Clone, Debug)]
pub(crate) struct Field<'e> {
    pub(crate) name: &'e str,
    pub(crate) value: Value<'e>,
    /// Whether the sentence has its name as well.
    pub(crate) is_named: bool,
}

/// Words, and the field behind them.
#[derive(Clone, Debug)]
pub(crate) struct Part<'e> {
    pub(crate) place: Place,
    pub(crate) words: Cow<'e, str>,
    pub(crate) field: Option<Field<'e>>,
}

/// The description of an entry.
#[derive(Clone, Debug)]
pub(crate) struct Description<'e> {
    /// Its kind; what is behind a comma tells it from others of the kind.
    pub(crate) kind: &'static str,
    /// Its category in a trace.
    pub(crate) category: &'static str,
    /// The function's name, the event's, or the outcome: what stands for it where its fields are beside it.
    pub(crate) name: Cow<'e, str>,
    /// The same where no field is beside it.
    pub(crate) title: Cow<'e, str>,
    /// The fields that tell most of it, in this order; all arguments if there are none.
    pub(crate) brief: Option<&'static [&'static str]>,
    /// The sentence.
    pub(crate) parts: Vec<Part<'e>>,
    /// Where the next part goes.
    place: Place,
}

impl<'e> Description<'e> {
    /// All fields.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (Place, &Field<'e>)> {
        self.parts.iter().filter_map(|part| Some((part.place, part.field.as_ref()?)))
    }

    pub(super) fn new(
        kind: &'static str,
        category: &'static str,
        name: impl Into<Cow<'e, str>>,
    ) -> Self {
        let name = name.into();
        let title = name.clone();
        Self {
            kind,
            category,
            name,
            title,
            brief: Some(&[]),
            parts: Vec::new(),
            place: Place::Argument,
        }
    }

    /// Where what follows goes.
    pub(super) fn at(&mut self, place: Place) -> &mut Self {
        self.place = place;
        self
    }

    fn put(
        &mut self,
        place: Place,
        words: impl Into<Cow<'e, str>>,
        field: Option<Field<'e>>,
    ) -> &mut Self {
        self.parts.push(Part { place, words: words.into(), field });
        self
    }

    pub(super) fn words(&mut self, words: impl Into<Cow<'e, str>>) -> &mut Self {
        self.put(self.place, words, None)
    }

    /// A value without its name.
    pub(super) fn bare(
        &mut self,
        words: &'static str,
        name: &'e str,
        value: impl Into<Value<'e>>,
    ) -> &mut Self {
        let field = Field { name, value: value.into(), is_named: false };
        self.put(self.place, words, Some(field))
    }

    pub(super) fn named(
        &mut self,
        words: &'static str,
        name: &'e str,
        value: impl Into<Value<'e>>,
    ) -> &mut Self {
        let field = Field { name, value: value.into(), is_named: true };
        self.put(self.place, words, Some(field))
    }

    /// Another one behind a comma, if there is one.
    pub(super) fn also(&mut self, name: &'e str, value: Option<impl Into<Value<'e>>>) -> &mut Self {
        match value {
            Some(value) => self.named(", ", name, value),
            None => self,
        }
    }

    pub(super) fn detail(&mut self, name: &'e str, value: impl Into<Value<'e>>) -> &mut Self {
        let field = Field { name, value: value.into(), is_named: true };
        self.put(Place::Detail, "", Some(field))
    }

    pub(super) fn list(&mut self, values: &'e [Named]) -> &mut Self {
        for (at, Named(name, value)) in values.iter().enumerate() {
            self.named(if at == 0 { "" } else { ", " }, name, of_call(name, value));
        }
        self
    }

    pub(super) fn request(
        &mut self,
        before: &'static str,
        between: &'static str,
        qp: u32,
        wr_id: u64,
    ) -> &mut Self {
        self.named(before, "qp", Name::Qp(qp)).named(between, "wr_id", Name::WrId(wr_id))
    }

    pub(super) fn memory(&mut self, length: u64, sges: &'e [Sge]) -> &mut Self {
        self.bare(", ", "length", Value::Bytes(length));
        match sges {
            [] => self,
            sges => self.bare(" ", "sg_list", Value::Memory(sges)),
        }
    }
}

/// An argument or a result of a call.
fn of_call<'e>(name: &str, value: &'e value::Value) -> Value<'e> {
    match value {
        value::Value::Name(name) => Value::Name(*name),
        value::Value::Number(index) if name == "sgid_index" => Value::GidIndex(*index),
        value::Value::Number(number) => Value::Number(*number),
        value::Value::Text(text) if text == "0" => Value::Text(text.into()),
        value::Value::Text(text) => Value::Word(text.into()),
        value::Value::None => Value::Null,
    }
}
