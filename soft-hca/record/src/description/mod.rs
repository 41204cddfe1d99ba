//! An entry, described once for all views: a sentence whose values are fields, with their names and types.
//!
//! A line of text is the whole sentence; a picture and a trace show its fields, or some of them. How a value is
//! written is the view's, in `words`. Names are those of the verbs' parameters.
//!
//! - `sentence`: its parts, and how it is put together
//! - `entries`: the sentence of each kind of entry

mod entries;
mod sentence;

pub(crate) use entries::GROUP;
pub(crate) use sentence::{Description, Field, Place, Value};
