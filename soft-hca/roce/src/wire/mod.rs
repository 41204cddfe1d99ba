//! Packets of RoCE v2 as bytes.

pub mod bth;
