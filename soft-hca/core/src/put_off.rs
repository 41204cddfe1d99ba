//! Choices by a seed: for how long `--strict` puts something off.
//!
//! The n-th choice of a seed is always the same, whatever the time: so a run with the same seed does the same
//! again, as far as the program itself does.

use soft_hca_fault::Random;

/// The choice with this number of those that a seed makes: a number below `limit`.
#[must_use]
pub fn choice(seed: u64, number: u64, limit: u64) -> u64 {
    Random::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).below(limit)
}

/// How long things are put off: of 16, so many for less than so many nanoseconds, and no less than what stands
/// before.
pub type Delays = [(u64, u64); 3];

/// Those of requests and of events.
pub const DELAYS: Delays = [(10, 200_000), (15, 2_000_000), (16, 10_000_000)];
/// The shortest.
const LEAST_NS: u64 = 20_000;

/// For how many nanoseconds something is put off; `choose` gives a number below a limit.
pub fn delay_ns(delays: Delays, mut choose: impl FnMut(u64) -> u64) -> u64 {
    let number = choose(16);
    let mut least = LEAST_NS;
    for (below, most) in delays {
        if number < below {
            return least + choose(most - least);
        }
        least = most;
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_as_the_table_has_them() {
        let mut number = 0;
        let mut delay = || {
            delay_ns(DELAYS, |limit| {
                number += 1;
                choice(7, number, limit)
            })
        };
        let delays: Vec<u64> = (0..16_000).map(|_| delay()).collect();
        let below = |most: u64| delays.iter().filter(|delay| **delay < most).count();
        assert!(delays.iter().all(|delay| (LEAST_NS..10_000_000).contains(delay)));
        assert!((9_500..10_500).contains(&below(200_000)), "{}", below(200_000));
        assert!((14_800..15_200).contains(&below(2_000_000)), "{}", below(2_000_000));
    }

    #[test]
    fn a_seed_chooses_the_same_again() {
        let of = |seed| (0..64).map(|number| choice(seed, number, 1000)).collect::<Vec<_>>();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
