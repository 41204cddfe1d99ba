//! Pages with the C and the Rust of an example side by side, function by function.
//!
//! - [`source`]: cuts a source into its functions
//! - [`pairs`]: which function of the C is which of the Rust
//! - [`align`]: which line stands beside which
//! - [`differences`]: where a difference from the C is explained
//! - `page`: the page
//!
//! The C is that of the reader's own folder, as it is for `./compare`; this repository has none of it.

use std::path::{Path, PathBuf};

use super::{links, put};
use crate::Error;
use crate::compare::originals::Originals;
use crate::examples::{EXAMPLES, Example};

pub mod align;
pub mod differences;
mod page;
pub mod pairs;
pub mod source;

/// How the pages look, for mdBook to add.
pub const STYLE: &str = include_str!("beside.css");

/// Where the page of an example is in the book.
pub fn place(name: &str) -> PathBuf {
    Path::new(name).join("c-and-rust.md")
}

/// Where a function is on its page. Programs of two sides have some names twice.
pub fn anchor(stem: &str, function: &str) -> String {
    format!("{stem}-{function}")
}

/// The examples that are translations, in their order.
pub fn examples() -> impl Iterator<Item = &'static Example> {
    EXAMPLES.iter().filter(|example| example.original)
}

/// The example whose README this page is, if it has a page of both.
pub fn of_page(page: &Path) -> Option<&'static str> {
    let mut names = examples().map(|example| example.name);
    names.find(|name| page == Path::new(name).join("README.md"))
}

/// Their lines in mdBook's `SUMMARY.md`.
pub fn summary() -> String {
    let line = |example: &Example| {
        format!("- [{}, C and Rust]({})\n", example.name, place(example.name).display())
    };
    format!("\n# C and Rust side by side\n\n{}", examples().map(line).collect::<String>())
}

/// Writes the pages to the book's. Without `originals` they have the Rust alone. Returns how many.
///
/// # Errors
/// A file that cannot be read or written.
pub fn write(top: &Path, originals: Option<&Originals>, pages: &Path) -> Result<usize, Error> {
    for example in examples() {
        let text = page::page(top, originals, example)?;
        // The list of differences, which the page has, is written for the README's place.
        let text = links::in_book(&text, &Path::new(example.name).join("README.md"), top);
        put(&pages.join(place(example.name)), text.as_bytes())?;
    }
    Ok(examples().count())
}
