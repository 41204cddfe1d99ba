//! The server as a program; all of it is in [`ping_sr_2e::server`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ping_sr_2e::server::main()
}
