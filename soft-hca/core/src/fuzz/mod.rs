//! A fuzz target that takes any bytes and does with them what a program could do to the arena;
//! `soft-hca-daemon` has the others.

mod rings;

pub use rings::run as rings;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
            super::rings(&input);
        }
    }
}
