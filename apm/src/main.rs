#![doc = include_str!("../README.md")]

mod apm;

use std::process::ExitCode;

fn main() -> ExitCode {
    apm::main()
}
