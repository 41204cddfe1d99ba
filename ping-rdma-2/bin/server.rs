//! The server as a program; all of it is in [`ping_rdma_2::server`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ping_rdma_2::server::main()
}
