//! The pure part of a RoCE v2 link: bytes and state, no socket, no clock, no device.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`wire`] | packets as bytes: headers, check, addresses, management datagrams, recordings |
#![forbid(unsafe_code)]

#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod wire;
