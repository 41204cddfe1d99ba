#![doc = include_str!("../README.md")]

mod rdma_rc_example;

use std::process::ExitCode;

fn main() -> ExitCode {
    rdma_rc_example::main()
}
