//! Elements of SVG: what they have beside their place goes in front of it, as attributes.

use super::values::n;

pub(super) fn text(attributes: &str, x: f64, y: f64, inner: &str) -> String {
    format!("<text {attributes} x=\"{}\" y=\"{}\">{inner}</text>", n(x), n(y))
}

/// A rectangle, by its left and upper edge, its width and its height.
pub(super) fn rect(attributes: &str, [x, y, width, height]: [f64; 4]) -> String {
    let [x, y, width, height] = [x, y, width, height].map(n);
    format!("<rect {attributes} x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>")
}

/// One with round corners.
pub(super) fn rounded(attributes: &str, place: [f64; 4], radius: u32) -> String {
    rect(attributes, place).replace("/>", &format!(" rx=\"{radius}\"/>"))
}

pub(super) fn circle(attributes: &str, x: f64, y: f64, r: f64) -> String {
    format!("<circle {attributes} cx=\"{}\" cy=\"{}\" r=\"{}\"/>", n(x), n(y), n(r))
}

pub(super) fn path(attributes: &str, d: &str) -> String {
    format!("<path {attributes} d=\"{d}\"/>")
}
