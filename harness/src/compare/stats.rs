//! Ratios of runs that alternate, and what is typical of them.

use serde::Serialize;

/// The middle of some ratios Rust/C, and the half of them that lies around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// As many are above as below.
    pub median: f64,
    /// A quarter is below.
    pub lower: f64,
    /// A quarter is above.
    pub upper: f64,
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
        })
    }

    /// Is it over the limit, and more than by chance: three quarters of the pairs, too?
    pub fn exceeds(&self, limit: f64) -> bool {
        self.lower > limit
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
        assert_eq!(ratio, Ratio { median: 3.0, lower: 2.0, upper: 4.0 });
        assert!(ratio.exceeds(1.9) && !ratio.exceeds(2.0));
        assert_eq!(ratio.to_string(), "3.00 (2.00-4.00)");
        assert_eq!(Ratio::of(&[]), None);
    }
}
