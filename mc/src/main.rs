#![doc = include_str!("../README.md")]

use std::process::ExitCode;

mod mc;

fn main() -> ExitCode {
    mc::main()
}
