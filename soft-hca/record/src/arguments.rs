//! A call's arguments and results by what they are called.

use std::str::FromStr;

use crate::value::{Name, Named, Value};

/// The value that is called so.
pub fn value<'v>(values: &'v [Named], wanted: &str) -> Option<&'v Value> {
    values.iter().find_map(|Named(name, value)| (name == wanted).then_some(value))
}

/// What that names.
pub fn name(values: &[Named], wanted: &str) -> Option<Name> {
    match value(values, wanted)? {
        Value::Name(name) => Some(*name),
        _ => None,
    }
}

/// The queue pair that it names.
pub fn qp(values: &[Named], wanted: &str) -> Option<u32> {
    match name(values, wanted)? {
        Name::Qp(number) => Some(number),
        _ => None,
    }
}

/// The completion queue that it names.
pub fn cq(values: &[Named], wanted: &str) -> Option<u32> {
    match name(values, wanted)? {
        Name::Cq(number) => Some(number),
        _ => None,
    }
}

/// The shared receive queue that it names.
pub fn srq(values: &[Named], wanted: &str) -> Option<u32> {
    match name(values, wanted)? {
        Name::Srq(number) => Some(number),
        _ => None,
    }
}

/// The descriptor of the completion channel that it names.
pub fn channel(values: &[Named], wanted: &str) -> Option<u32> {
    match name(values, wanted)? {
        Name::Channel(fd) => Some(fd),
        _ => None,
    }
}

/// The number that it is, unless that is negative.
pub fn number(values: &[Named], wanted: &str) -> Option<u64> {
    match value(values, wanted)? {
        Value::Number(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// The word of the verbs that it is, or their flags.
pub fn word<W: FromStr>(values: &[Named], wanted: &str) -> Option<W> {
    text(values, wanted)?.parse().ok()
}

/// Its words.
pub fn text<'v>(values: &'v [Named], wanted: &str) -> Option<&'v str> {
    match value(values, wanted)? {
        Value::Text(text) => Some(text),
        _ => None,
    }
}
