//! The current [bindgen](current), in the place of the one that `rdma-sys` 0.3.0 is built with.
//!
//! bindgen 0.59 takes the name that libclang 16 and later give an unnamed type for the type's own, and
//! ends in a panic. The builder's methods that `rdma-sys` calls are the same in both.

pub use current::*;
