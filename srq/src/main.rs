#![doc = include_str!("../README.md")]

mod srq;

use std::process::ExitCode;

fn main() -> ExitCode {
    srq::main()
}
