#![doc = include_str!("../README.md")]

use std::process::ExitCode;

mod apm;

fn main() -> ExitCode {
    apm::main()
}
