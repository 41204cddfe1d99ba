//! All layouts, for a comparison with the headers.

use crate::uapi::{layout, rxe, ucma, uverbs};

/// Every structure that a header of the kernel lays out.
pub fn layouts() -> impl Iterator<Item = &'static layout::Layout> {
    let uverbs = [uverbs::request::LAYOUTS, uverbs::answer::LAYOUTS];
    uverbs.into_iter().chain([rxe::abi::LAYOUTS, ucma::abi::LAYOUTS]).flatten()
}
