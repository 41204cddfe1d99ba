#![doc = include_str!("../README.md")]

mod mckey;

use std::process::ExitCode;

fn main() -> ExitCode {
    mckey::main()
}
