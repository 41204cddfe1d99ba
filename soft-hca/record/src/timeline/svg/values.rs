//! Values as HTML and SVG want them.

use crate::correlation::Correlation;
use crate::severity::Severity;

/// A text as HTML and SVG want it, in elements and in attributes.
pub(in crate::timeline) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Browsers refuse the other control characters in places.
            sign if sign.is_control() => escaped.push('\u{fffd}'),
            sign => escaped.push(sign),
        }
    }
    escaped
}

/// A coordinate, as short as it can be.
pub(super) fn n(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The unit of times.
pub(super) fn unit(correlation: &Correlation<'_>) -> &'static str {
    if in_seconds(correlation) { "s" } else { "ms" }
}

fn in_seconds(correlation: &Correlation<'_>) -> bool {
    correlation.entries.last().is_some_and(|last| last.t >= 100_000_000_000)
}

/// A time, in the unit of the run.
pub(super) fn time(correlation: &Correlation<'_>, t: u64) -> String {
    if in_seconds(correlation) {
        format!("{}.{:06}", t / 1_000_000_000, t % 1_000_000_000 / 1_000)
    } else {
        format!("{}.{:03}", t / 1_000_000, t % 1_000_000 / 1_000)
    }
}

/// A time with its unit.
pub(in crate::timeline) fn time_and_unit(correlation: &Correlation<'_>, t: u64) -> String {
    format!("{} {}", time(correlation, t), unit(correlation))
}

/// The class of what is not as it should be.
pub(super) fn class_of(severity: Severity) -> &'static str {
    match severity {
        Severity::Well => "",
        Severity::Notable => " note",
        Severity::Failure => " bad",
    }
}
