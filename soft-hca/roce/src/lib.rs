//! The pure part of a RoCE v2 link: bytes and state, no socket, no clock, no device.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`wire`] | packets as bytes: headers, check, addresses, management datagrams, recordings |
//! | [`transport`] | the protocol of RC, UC and UD queue pairs as state machines |
#![forbid(unsafe_code)]

#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod transport;
pub mod wire;
