//! An entry's members as arguments of its event.

use serde_json::Value as Json;

use super::message::{DebugAnnotation, Value};
use crate::entry::{Entry, Outcome, What};
use crate::text::compared;
use crate::value::{self, Name, Named};

/// The members that say when and where an event is, and what it is.
const SHOWN: [&str; 4] = ["t", "process", "thread", "what"];

/// The arguments of an entry.
pub(super) fn of(entry: &Entry) -> Vec<DebugAnnotation> {
    let mut arguments = match &entry.what {
        What::Call(call) => {
            let mut arguments = vec![dict("args", &call.args)];
            arguments.push(match &call.result {
                Outcome::Done(results) => dict("result", results),
                Outcome::Refused { error, reason, values } => {
                    let number = error.number();
                    let reason = reason.as_ref().map_or(String::new(), |text| format!(", {text}"));
                    let values = compared(values, value::Value::to_string);
                    with("refused", Value::String(format!("{error} ({number}){reason}{values}")))
                }
            });
            arguments
        }
        // What is a number's name is told by its member's.
        What::AsyncEvent { element, place, .. } => {
            let element = element.map(|name| named(name.kind(), &name.into()));
            let place = place.as_ref().map(|place| named("place", &place.as_str().into()));
            element.into_iter().chain(place).collect()
        }
        _ => members(entry),
    };
    if let Some(by) = entry.by {
        arguments.push(with("by", Value::Uint(by.into())));
    }
    arguments.retain(|argument| {
        argument.value.is_some()
            || !argument.dict_entries.is_empty()
            || !argument.array_values.is_empty()
    });
    arguments
}

/// All members as they stand in a record.
fn members(entry: &Entry) -> Vec<DebugAnnotation> {
    // Of a type with names for members only.
    let Ok(Json::Object(members)) = serde_json::to_value(&entry.what) else { return Vec::new() };
    let members = members.iter().filter(|(name, _)| !SHOWN.contains(&&name[..]));
    members.map(|(name, json)| from_json(Some(name), json)).collect()
}

fn from_json(name: Option<&str>, json: &Json) -> DebugAnnotation {
    let mut annotation = DebugAnnotation { name: name.map(String::from), ..Default::default() };
    match json {
        Json::Null => {}
        Json::Bool(value) => annotation.value = Some(Value::Bool(*value)),
        Json::String(text) => annotation.value = Some(Value::String(text.clone())),
        Json::Number(number) => {
            let is_pointer =
                name.is_some_and(|name| name.ends_with("address") || name.ends_with("key"));
            annotation.value = match number.as_u64() {
                Some(number) if is_pointer => Some(Value::Pointer(number)),
                Some(number) => Some(Value::Uint(number)),
                None => number.as_i64().map(Value::Int),
            };
        }
        Json::Array(values) => {
            annotation.array_values = values.iter().map(|json| from_json(None, json)).collect();
        }
        Json::Object(members) => {
            let members = members.iter().map(|(name, json)| from_json(Some(name), json));
            annotation.dict_entries = members.collect();
        }
    }
    annotation
}

fn dict(name: &str, values: &[Named]) -> DebugAnnotation {
    let dict_entries = values.iter().map(|Named(name, value)| named(name, value)).collect();
    DebugAnnotation { name: Some(name.into()), dict_entries, ..Default::default() }
}

fn named(name: &str, value: &value::Value) -> DebugAnnotation {
    let value = match value {
        value::Value::Name(name @ (Name::Key(_) | Name::Address(_))) => {
            Value::Pointer(name.number())
        }
        value::Value::Name(name) => Value::Uint(name.number()),
        value::Value::Number(number) => Value::Int(*number),
        value::Value::Text(text) => Value::String(text.clone()),
        value::Value::None => Value::String("NULL".into()),
    };
    with(name, value)
}

fn with(name: &str, value: Value) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.into()), value: Some(value), ..Default::default() }
}
