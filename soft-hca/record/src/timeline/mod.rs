//! The timeline of a run: one HTML file with a picture of it.
//!
//! - `frame`: what stands where from left to right
//! - `layout`: what stands where from top to bottom
//! - `svg`: the picture
//! - `page`: the page around it
//! - `data`: what its script needs
//! - `source`: the lines of the programs that it shows
//! - `references`: what there is to read about them

#[cfg(test)]
mod browser;
mod data;
mod frame;
mod layout;
mod page;
mod references;
mod source;
mod svg;
#[cfg(test)]
mod tests;
mod text;

use crate::correlation::Correlation;
use crate::entry::{Entry, Header};

pub use references::References;
pub use source::Sources;

/// A page of HTML that shows a run: complete in itself, for the eyes, the keyboard and paper.
///
/// Calls are shown as the program made them, without the commands that a library makes of them; see
/// [`apart`](crate::calls::apart).
///
/// Of a long run, rounds that are like the one before are folded, and of what is left the middle is
/// left out where it is more than a browser likes; errors are always there. So the page has some
/// megabytes at most. For paper it has the picture a second time, narrower and in larger letters, and for a phone a third
/// time, with the texts above the marks.
///
/// A thing that is chosen shows the lines of `sources` where it was called, and what there is to read about their
/// function.
pub fn html(header: &Header, entries: &[Entry], sources: &Sources) -> String {
    let correlation = Correlation::new(header, entries);
    let layout = layout::Layout::of(&correlation);
    let phone = layout::Layout::on_phone(&correlation);
    let paper = layout::Layout::on_paper(&correlation);
    page::page(&correlation, [&layout, &phone, &paper], sources)
}
