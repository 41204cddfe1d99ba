//! The client as a program; all of it is in [`many_clients::client`].

use std::process::ExitCode;

fn main() -> ExitCode {
    many_clients::client::main()
}
