//! Packets of RoCE v2 as bytes.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`packet`] | a whole packet: read, built |
//! | [`bth`], [`opcode`], [`headers`] | its parts |
//! | [`icrc`] | its check |
//! | [`ip`] | what carries it: addresses, IP and UDP headers |
//! | [`mad`], [`cm`] | management datagrams; the connection manager's messages |
//! | [`pcapng`] | recordings for Wireshark |

pub mod bth;
mod bytes;
pub mod cm;
mod fields;
pub mod headers;
pub mod icrc;
pub mod ip;
pub mod mad;
pub mod opcode;
pub mod packet;
pub mod pcapng;
#[cfg(test)]
pub(crate) mod samples;
