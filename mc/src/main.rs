#![doc = include_str!("../README.md")]

use std::process::ExitCode;

mod mc;
mod rdma_addrinfo;

fn main() -> ExitCode {
    mc::main()
}
