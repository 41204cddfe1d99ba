//! An entry's fields as arguments of its event.

use super::message::{DebugAnnotation, Value};
use crate::description::{self, Description, Field, Place};
use crate::entry::{Entry, Sge, What};
use crate::value::Name;

/// The arguments of an entry; of a call those that it has and those that it gives apart.
pub(super) fn of(entry: &Entry, said: &Description<'_>) -> Vec<DebugAnnotation> {
    let of = |wanted: Place| said.fields().filter(move |(place, _)| *place == wanted);
    let is_call = matches!(entry.what, What::Call(_));
    let dict = |name: &str, place: Place| {
        let dict_entries: Vec<_> = of(place).map(|(_, field)| annotation(field)).collect();
        let dict = DebugAnnotation { name: Some(name.into()), dict_entries, ..Default::default() };
        Some(dict).filter(|dict| is_call && !dict.dict_entries.is_empty())
    };
    let own = said.fields().filter(|_| !is_call).map(|(_, field)| annotation(field));
    let by = entry.by.map(|by| with("by", Value::Uint(by.into())));
    let call = [dict("args", Place::Argument), dict("result", Place::Result)];
    own.chain(call.into_iter().flatten()).chain(by).collect()
}

fn annotation(field: &Field<'_>) -> DebugAnnotation {
    use description::Value as Of;
    let value = match &field.value {
        Of::Memory(sges) => {
            let array_values = sges.iter().map(sge).collect();
            let name = Some(field.name.into());
            return DebugAnnotation { name, array_values, ..Default::default() };
        }
        Of::Name(name) => number(*name),
        Of::GidIndex(number) | Of::Number(number) => Value::Int(*number),
        Of::Unsigned(number) | Of::Bytes(number) | Of::Duration(number) | Of::Missing(number) => {
            Value::Uint(*number)
        }
        Of::Imm(number) | Of::Found(number) => Value::Uint((*number).into()),
        Of::Word(text) | Of::Text(text) => Value::String(text.to_string()),
        other => Value::String(other.words()),
    };
    with(field.name, value)
}

fn sge(sge: &Sge) -> DebugAnnotation {
    let dict_entries = vec![
        with("address", number(Name::Address(sge.address))),
        with("length", Value::Uint(sge.length.into())),
        with("lkey", number(Name::Key(sge.lkey))),
    ];
    DebugAnnotation { dict_entries, ..Default::default() }
}

fn number(name: Name) -> Value {
    match name {
        Name::Key(_) | Name::Address(_) => Value::Pointer(name.number()),
        name => Value::Uint(name.number()),
    }
}

fn with(name: &str, value: Value) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.into()), value: Some(value), ..Default::default() }
}
