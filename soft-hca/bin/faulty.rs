//! The library of `soft-hca-faulty` where `cargo install` puts it: `build.rs` has this program linked as a
//! shared library.
#![no_main]

mod entry;

use soft_hca_faulty as _;
