//! The client as a program; all of it is in [`blast_rdma_1::client`].

use std::process::ExitCode;

fn main() -> ExitCode {
    blast_rdma_1::client::main()
}
