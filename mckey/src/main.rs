#![doc = include_str!("../README.md")]

use std::process::ExitCode;

mod mckey;

fn main() -> ExitCode {
    mckey::main()
}
