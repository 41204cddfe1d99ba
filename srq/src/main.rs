#![doc = include_str!("../README.md")]

use std::process::ExitCode;

mod srq;

fn main() -> ExitCode {
    srq::main()
}
