//! Ratios of runs that alternate, and what is typical of them.

use serde::{Deserialize, Serialize};

/// The middle of some ratios Rust/C, and the half of them that lies around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// As many are above as below.
    pub median: f64,
    /// A quarter is below.
    pub lower: f64,
    /// A quarter is above.
    pub upper: f64,
    /// How many there are.
    pub pairs: usize,
}

impl Ratio {
    /// Of pairs (C, Rust) that were measured one after the other.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Ratio> {
        let mut ratios: Vec<f64> =
            pairs.iter().filter(|(c, _)| *c > 0.0).map(|(c, rust)| rust / c).collect();
        ratios.sort_by(f64::total_cmp);
        Some(Ratio {
            median: quantile(&ratios, 0.5)?,
            lower: quantile(&ratios, 0.25)?,
            upper: quantile(&ratios, 0.75)?,
            pairs: ratios.len(),
        })
    }

    /// How far the median may be off by chance, in about 95 of 100 measurements: McGill, Tukey,
    /// Larsen, "Variations of Box Plots", 1978.
    pub fn uncertainty(&self) -> f64 {
        1.57 * (self.upper - self.lower) / (self.pairs as f64).sqrt()
    }

    /// Is it over the limit, and more than by chance?
    pub fn exceeds(&self, limit: f64) -> bool {
        self.median - self.uncertainty() > limit
    }

    /// Would chance explain that it is on this side of the limit and not on the other?
    pub fn is_unclear(&self, limit: f64) -> bool {
        (self.median - limit).abs() <= self.uncertainty()
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{:.2} ({:.2}-{:.2})", self.median, self.lower, self.upper))
    }
}

/// The middle of some numbers.
pub fn median(numbers: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    quantile(&numbers, 0.5)
}

/// Between the two neighbours, by its distance to each.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = share * last as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(low + (high - low) * at.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_half_around_it() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([1.0, 2.0]), Some(1.5));
        assert_eq!(median([]), None);
        let pairs = [(2.0, 2.0), (1.0, 2.0), (1.0, 3.0), (2.0, 8.0), (1.0, 5.0), (0.0, 9.0)];
        let ratio = Ratio::of(&pairs).unwrap();
        assert_eq!(ratio, Ratio { median: 3.0, lower: 2.0, upper: 4.0, pairs: 5 });
        assert_eq!(ratio.to_string(), "3.00 (2.00-4.00)");
        assert_eq!(Ratio::of(&[]), None);
    }

    #[test]
    fn more_pairs_make_a_ratio_clear() {
        let ratio = |pairs| Ratio { median: 1.1, lower: 1.0, upper: 1.2, pairs };
        assert!(ratio(25).is_unclear(1.05) && !ratio(25).exceeds(1.05));
        assert!(!ratio(100).is_unclear(1.05) && ratio(100).exceeds(1.05));
        assert!(!ratio(100).is_unclear(1.2) && !ratio(100).exceeds(1.2));
    }
}
