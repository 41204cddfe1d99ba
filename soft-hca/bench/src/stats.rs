//! Medians and spreads.

/// The summary of several repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

/// Summary of values; `None` if there are none or one of them is no number.
pub fn summary(values: &[f64]) -> Option<Summary> {
    if values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (&min, &max) = (sorted.first()?, sorted.last()?);
    let middle = sorted.len() / 2;
    let median = if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    };
    Some(Summary { median, min, max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(summary(&[]), None);
        assert_eq!(summary(&[1.0, f64::NAN]), None);
        assert_eq!(summary(&[f64::INFINITY]), None);
        let of = |values: &[f64]| summary(values).unwrap();
        assert_eq!(of(&[3.0]), Summary { median: 3.0, min: 3.0, max: 3.0 });
        assert_eq!(of(&[9.0, 1.0, 2.0]), Summary { median: 2.0, min: 1.0, max: 9.0 });
        assert_eq!(of(&[4.0, 1.0, 2.0, 9.0]).median, 3.0);
    }
}
