//! The client as a program; all of it is in [`pubsub_rdma_2::client`].

use std::process::ExitCode;

fn main() -> ExitCode {
    pubsub_rdma_2::client::main()
}
