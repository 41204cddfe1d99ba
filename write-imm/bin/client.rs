//! The client as a program; all of it is in [`write_imm::client`].

use std::process::ExitCode;

fn main() -> ExitCode {
    write_imm::client::main()
}
