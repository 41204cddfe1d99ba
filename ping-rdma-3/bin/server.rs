//! The server as a program; all of it is in [`ping_rdma_3::server`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ping_rdma_3::server::main()
}
