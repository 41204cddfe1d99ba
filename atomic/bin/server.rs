//! The server as a program; all of it is in [`atomic::server`].

use std::process::ExitCode;

fn main() -> ExitCode {
    atomic::server::main()
}
