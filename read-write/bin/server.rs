//! The server as a program; all of it is in [`read_write::server`].

use std::process::ExitCode;

fn main() -> ExitCode {
    read_write::server::main()
}
