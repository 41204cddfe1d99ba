//! Fuzz targets: each takes any bytes, does with them what a program could do, and checks what has
//! to hold whatever they are. `soft-hca/fuzz` runs them with coverage; a few random inputs and
//! those that once found something run with the unit tests.
//!
//! `soft-hca-core` has one more, of rings.
//!
//! | target | is about |
//! | --- | --- |
//! | [`parsers`] | all that is taken from bytes or text, one by one |
//! | [`uverbs`] | uverbs commands of two programs, and their doorbells |
//! | [`ucma`] | rdma_cm commands of three files that talk to each other, and messages of other hosts |
//! | [`daemon`] | messages over sockets to a whole daemon |

mod daemon;
mod parsers;
pub(crate) mod shapes;
mod ucma;
mod uverbs;

pub use daemon::run as daemon;
pub use parsers::run as parsers;
pub use ucma::run as ucma;
pub use uverbs::run as uverbs;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn input() -> impl Strategy<Value = Vec<u8>> {
        let small = prop_oneof![any::<u8>(), 0..16u8];
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..600),
            proptest::collection::vec(small, 0..600),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn random_bytes_hold_everywhere(input in input()) {
            for target in [daemon, ucma, uverbs, parsers] {
                target(&input);
            }
        }
    }
}
