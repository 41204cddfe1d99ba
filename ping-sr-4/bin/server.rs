//! The server as a program; all of it is in [`ping_sr_4::server`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ping_sr_4::server::main()
}
