#![doc = include_str!("../README.md")]

mod mc;

use std::process::ExitCode;

fn main() -> ExitCode {
    mc::main()
}
