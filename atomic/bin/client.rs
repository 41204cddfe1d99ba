//! The client as a program; all of it is in [`atomic::client`].

use std::process::ExitCode;

fn main() -> ExitCode {
    atomic::client::main()
}
