//! The client as a program; all of it is in [`blast_sr_2e::client`].

use std::process::ExitCode;

fn main() -> ExitCode {
    blast_sr_2e::client::main()
}
