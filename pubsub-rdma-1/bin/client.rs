//! The client as a program; all of it is in [`pubsub_rdma_1::client`].

use std::process::ExitCode;

fn main() -> ExitCode {
    pubsub_rdma_1::client::main()
}
