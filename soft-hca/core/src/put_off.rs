//! Choices by a seed: for how long `--strict` puts something off, and what else it does.
//!
//! A choice depends on the seed, its kind and its place, whatever the time and whatever was chosen elsewhere: so a run
//! with the same seed does the same again, as far as the program itself does, and goes on to do so where
//! choices of other kinds are not made.

use soft_hca_fault::Random;
use soft_hca_verbs::Choice;

/// Numbers from which a choice is made.
#[derive(Debug)]
pub struct Draws(Random);

impl Draws {
    /// Those of a kind of choices at a place: the number of a request or event of the object whose seed it is.
    #[must_use]
    pub fn new(seed: u64, choice: Choice, place: u64) -> Self {
        let place = place << u8::BITS | choice as u64;
        Self(Random::new(seed ^ Random::new(place).below(u64::MAX)))
    }

    /// The next one, below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.below(limit)
    }
}

/// How long things are put off: of 16, so many for less than so many nanoseconds, and no less than what stands
/// before.
pub type Delays = [(u64, u64); 3];

/// Those of requests and of events.
pub const DELAYS: Delays = [(10, 200_000), (15, 2_000_000), (16, 10_000_000)];
/// The shortest.
pub const LEAST_NS: u64 = 20_000;

/// For how many nanoseconds something is put off.
pub fn delay_ns(delays: Delays, draws: &mut Draws) -> u64 {
    let number = draws.below(16);
    let mut least = LEAST_NS;
    for (below, most) in delays {
        if number < below {
            return least + draws.below(most - least);
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
        let delay = |place| delay_ns(DELAYS, &mut Draws::new(7, Choice::Delay, place));
        let delays: Vec<u64> = (0..16_000).map(delay).collect();
        let below = |most: u64| delays.iter().filter(|delay| **delay < most).count();
        assert!(delays.iter().all(|delay| (LEAST_NS..10_000_000).contains(delay)));
        assert!((9_500..10_500).contains(&below(200_000)), "{}", below(200_000));
        assert!((14_800..15_200).contains(&below(2_000_000)), "{}", below(2_000_000));
    }

    #[test]
    fn a_seed_chooses_the_same_again() {
        let of = |seed, choice| {
            let first = |place| Draws::new(seed, choice, place).below(1000);
            (0..64).map(first).collect::<Vec<_>>()
        };
        assert_eq!(of(1, Choice::Early), of(1, Choice::Early));
        assert_ne!(of(1, Choice::Early), of(2, Choice::Early));
        assert_ne!(of(1, Choice::Early), of(1, Choice::Landing));
    }
}
