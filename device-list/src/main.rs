#![doc = include_str!("../README.md")]

use std::process::ExitCode;

mod devices;

fn main() -> ExitCode {
    devices::main()
}
