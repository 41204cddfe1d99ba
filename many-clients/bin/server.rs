//! The server as a program; all of it is in [`many_clients::server`].

use std::process::ExitCode;

fn main() -> ExitCode {
    many_clients::server::main()
}
