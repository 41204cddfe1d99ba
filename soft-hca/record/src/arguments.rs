//! A call's arguments and results by what they are called.

use std::str::FromStr;

use crate::value::{Name, Named, Value};

/// The value that is called so.
pub fn value<'v>(values: &'v [Named], wanted: &str) -> Option<&'v Value> {
    values.iter().find_map(|Named(name, value)| (name == wanted).then_some(value))
}

/// The name that it is.
pub fn name(values: &[Named], wanted: &str) -> Option<Name> {
    match value(values, wanted)? {
        Value::Name(name) => Some(*name),
        _ => None,
    }
}

/// A function for each of these kinds of names, which gives the number of such a one.
macro_rules! kinds {
    ($($(#[$doc:meta])* $function:ident => $kind:ident,)*) => {
        $($(#[$doc])* pub fn $function(values: &[Named], wanted: &str) -> Option<u32> {
            match name(values, wanted)? {
                Name::$kind(number) => Some(number),
                _ => None,
            }
        })*
    };
}

kinds! {
    /// The queue pair that it names.
    qp => Qp,
    /// The completion queue that it names.
    cq => Cq,
    /// The shared receive queue that it names.
    srq => Srq,
    /// The descriptor of the completion channel that it names.
    channel => Channel,
    /// The descriptor of the connection manager's event channel that it names.
    event_channel => EventChannel,
    /// The id of the connection manager that it names.
    cm_id => CmId,
    /// The `lkey` or `rkey` that it is.
    key => Key,
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
