//! The client as a program; all of it is in [`ping_rdma_1::client`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ping_rdma_1::client::main()
}
