//! The pure part of a RoCE v2 link: bytes and state, no socket, no clock, no device.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`wire`] | packets as bytes: headers, check, addresses, management datagrams, recordings |
//! | [`transport`] | the protocol of RC and UC queue pairs as state machines |
#![forbid(unsafe_code)]

#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod transport;
pub mod wire;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
