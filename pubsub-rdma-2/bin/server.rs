//! The server as a program; all of it is in [`pubsub_rdma_2::server`].

use std::process::ExitCode;

fn main() -> ExitCode {
    pubsub_rdma_2::server::main()
}
