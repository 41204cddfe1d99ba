//! Packets of RoCE v2 as bytes.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`packet`] | a whole packet: read, built |
//! | [`bth`], [`opcode`], [`headers`] | its parts |

pub mod bth;
mod bytes;
pub mod headers;
pub mod opcode;
pub mod packet;
#[cfg(test)]
pub(crate) mod samples;
