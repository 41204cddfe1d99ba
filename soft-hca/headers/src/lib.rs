//! The structures of rdma-core's headers, for tests that compare soft-hca's own with them.
//!
//! `rdma-sys` takes this repository's bindgen to be built, which no registry has. So the crates that are
//! published use it by this one, which is not: cargo leaves out a dependency of tests that is a folder
//! without a version.

pub use rdma_sys::*;
