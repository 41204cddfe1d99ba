//! The client as a program; all of it is in [`read_write::client`].

use std::process::ExitCode;

fn main() -> ExitCode {
    read_write::client::main()
}
