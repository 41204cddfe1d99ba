#![doc = include_str!("../README.md")]

use std::process::ExitCode;

mod apm;
mod rdma_addrinfo;

fn main() -> ExitCode {
    apm::main()
}
