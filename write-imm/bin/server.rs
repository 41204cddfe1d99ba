//! The server as a program; all of it is in [`write_imm::server`].

use std::process::ExitCode;

fn main() -> ExitCode {
    write_imm::server::main()
}
