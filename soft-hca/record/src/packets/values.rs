//! Arguments and results of calls by their names.

use crate::entry::{Call, Outcome};
use crate::value::{Named, Value};

pub(super) fn argument<'a>(call: &'a Call, name: &str) -> Option<&'a Value> {
    find(&call.args, name)
}

pub(super) fn result<'a>(call: &'a Call, name: &str) -> Option<&'a Value> {
    match &call.result {
        Outcome::Done(results) => find(results, name),
        Outcome::Refused { .. } => None,
    }
}

fn find<'a>(values: &'a [Named], name: &str) -> Option<&'a Value> {
    values.iter().find(|named| named.0 == name).map(|named| &named.1)
}

/// A number, the number of a name, or one in hexadecimal.
pub(super) fn number(value: &Value) -> Option<u32> {
    match value {
        Value::Name(name) => name.number().try_into().ok(),
        Value::Number(number) => (*number).try_into().ok(),
        Value::Text(text) => u32::from_str_radix(text.strip_prefix("0x")?, 16).ok(),
        Value::None => None,
    }
}

pub(super) fn argument_number(call: &Call, name: &str) -> Option<u32> {
    argument(call, name).and_then(number)
}

pub(super) fn argument_text<'a>(call: &'a Call, name: &str) -> Option<&'a str> {
    match argument(call, name)? {
        Value::Text(text) => Some(text),
        _ => None,
    }
}
