#![doc = include_str!("../README.md")]

pub mod addrinfo;
pub mod errno;
pub mod getopt;
pub mod memory;
pub mod number;
pub mod pipe;
pub mod print;
pub mod rdma_addrinfo;
pub mod sync;
pub mod utilities;
pub mod verbs;
