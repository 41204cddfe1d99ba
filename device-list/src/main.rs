#![doc = include_str!("../README.md")]

mod devices;

use std::process::ExitCode;

fn main() -> ExitCode {
    devices::main()
}
