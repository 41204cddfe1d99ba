//! Times in words.

/// A time in the unit that suits it.
pub fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// A time of the record.
pub(crate) fn seconds(t: u64) -> String {
    format!("{:.6} s", t as f64 / 1e9)
}
