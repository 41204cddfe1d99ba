//! The repository's pages, the sources they link to and recorded runs as a book for mdBook, which makes
//! static pages of it.
//!
//! - [`contents`]: which pages there are, in their order
//! - [`languages`]: which pages are there in Chinese as well
//! - [`links`]: what a page links to, and where that is in the book
//! - [`runs`]: the pages about recorded runs
//! - [`beside`]: the pages with the C and the Rust of the examples
//! - [`finish`]: what is left to do when mdBook has made its pages
//!
//! A page is a path from the top of the repository: that of a text of Markdown, of a source, or of a folder
//! without a `README.md`, which becomes a list of its files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::compare::originals::Originals;

pub mod beside;
pub mod contents;
pub mod finish;
pub mod languages;
pub mod links;
pub mod runs;

use contents::Part;
use links::Target;
use runs::Runs;

/// mdBook's settings.
const SETTINGS: &str = include_str!("book.toml");

/// How many files a book has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Pages about the project.
    pub pages: usize,
    /// Sources and folders as pages.
    pub sources: usize,
    /// Pages about recorded runs.
    pub runs: usize,
    /// Pages with the C and the Rust of an example.
    pub beside: usize,
}

/// Writes the book of the repository at `top` to the folder `out`: `book.toml`, a style sheet, and `pages`. `runs` is
/// a folder of recorded runs; see [`runs`]. `originals` are what stands beside the Rust; see [`beside`].
///
/// # Errors
/// A file that cannot be read or written.
pub fn write(
    top: &Path,
    runs: Option<&Path>,
    originals: Option<&Originals>,
    out: &Path,
) -> Result<Counts, Error> {
    let runs = runs.map(Runs::read).transpose()?.unwrap_or_default();
    let mut parts = contents::parts(top)?;
    let others = others(top, &parts)?;
    if !others.is_empty() {
        parts.push(Part { title: "Other files", chapters: vec![], loose: others });
    }
    let known: BTreeSet<&PathBuf> = parts.iter().flat_map(Part::pages).collect();
    let pages = out.join("pages");
    let (mut counts, mut summary) =
        (Counts { pages: 0, sources: 0, runs: 0, beside: 0 }, "# Summary\n".to_owned());
    for part in &parts {
        summary.push_str(&part.summary(top)?);
        match part.title {
            contents::THE_EXAMPLES => summary.push_str(&beside::summary()),
            contents::LESSONS => summary.push_str(&runs.summary(top)?),
            _ => {}
        }
        for page in part.pages() {
            let kind = if is_markdown(page) { &mut counts.pages } else { &mut counts.sources };
            *kind += 1;
            let mut text = match top.join(page).is_dir() {
                true => folder(top, page, &known)?,
                false => text(top, page)?,
            };
            text = languages::with_switch(text, page, top);
            copy_files(&links::targets(&text, page, top), top, &pages)?;
            text = links::in_book(&text, page, top);
            let both = beside::of_page(page);
            let both = both.map(|name| ("The C and the Rust, side by side", beside::place(name)));
            let run = runs.of_page(page);
            let words = match languages::is_chinese(page) {
                true => "它的一次运行的记录（英文）",
                false => "A run of it, recorded",
            };
            let run = run.map(|name| (words, runs::place(name)));
            for (what, to) in both.into_iter().chain(run) {
                let to = links::relative(&links::place(page, top), &to);
                text.push_str(&format!("\n---\n\n[{what}]({to})\n"));
            }
            put(&pages.join(links::place(page, top)), text.as_bytes())?;
        }
    }
    counts.runs = runs.write(top, &pages)?;
    counts.beside = beside::write(top, originals, &pages)?;
    put(&pages.join("SUMMARY.md"), summary.as_bytes())?;
    put(&out.join("beside.css"), beside::STYLE.as_bytes())?;
    put(&out.join("chinese.css"), languages::STYLE.as_bytes())?;
    put(&out.join("book.toml"), settings(top, &known, &runs).as_bytes())?;
    Ok(counts)
}

/// mdBook's settings: one searches pages, and neither sources nor runs, which have most of the words.
fn settings(top: &Path, known: &BTreeSet<&PathBuf>, runs: &Runs) -> String {
    let sources = known.iter().filter(|page| !is_markdown(page));
    let both = beside::examples().map(|example| beside::place(example.name));
    let places = sources.map(|page| links::place(page, top)).chain(both).chain(runs.places());
    let line = |place: PathBuf| format!("{:?} = {{ enable = false }}\n", place.display());
    places.map(line).fold(SETTINGS.to_owned(), |all, line| all + &line)
}

/// The pages that others link to, and that have no place of their own.
fn others(top: &Path, parts: &[Part]) -> Result<Vec<PathBuf>, Error> {
    let mut known: BTreeSet<PathBuf> = parts.iter().flat_map(Part::pages).cloned().collect();
    let mut next: Vec<PathBuf> = known.iter().cloned().collect();
    let mut others = BTreeSet::new();
    while let Some(page) = next.pop() {
        for target in links::targets(&text(top, &page)?, &page, top) {
            let Target::Page(linked) = target else { continue };
            if known.insert(linked.clone()) {
                others.insert(linked.clone());
                next.push(linked);
            }
        }
    }
    Ok(others.into_iter().collect())
}

/// Copies the files to which a page links and that are no pages.
fn copy_files(targets: &[Target], top: &Path, pages: &Path) -> Result<(), Error> {
    for target in targets {
        if let Target::File(file) = target {
            let bytes = fs::read(top.join(file)).map_err(Error::read(file))?;
            put(&pages.join(file), &bytes)?;
        }
    }
    Ok(())
}

fn is_markdown(page: &Path) -> bool {
    page.extension().is_some_and(|extension| extension == "md")
}

/// The list of a folder's files, with links to those that are pages.
fn folder(top: &Path, page: &Path, known: &BTreeSet<&PathBuf>) -> Result<String, Error> {
    let mut list = format!("# {}\n\n", page.display());
    for name in contents::files(&top.join(page))? {
        let name = name.display();
        list.push_str(&match known.contains(&page.join(name.to_string())) {
            true => format!("- [`{name}`]({name})\n"),
            false => format!("- `{name}`\n"),
        });
    }
    Ok(list)
}

/// The text of a page that is a file, as Markdown, with its links as they are in the repository. Nothing of a
/// folder: what is in it need not be in the book.
fn text(top: &Path, page: &Path) -> Result<String, Error> {
    let path = top.join(page);
    if path.is_dir() {
        return Ok(String::new());
    }
    let text = fs::read_to_string(&path).map_err(Error::read(&path))?;
    if is_markdown(page) {
        return Ok(text);
    }
    let language = match page.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => "rust,ignore",
        Some("c" | "h") => "c",
        Some("py") => "python",
        Some("toml") => "toml",
        Some("json") => "json",
        Some("yml" | "yaml") => "yaml",
        Some("patch") => "diff",
        None | Some("sh") => "bash",
        Some(_) => "text",
    };
    Ok(format!("# {}\n\n{}", page.display(), fenced(language, &text)))
}

/// A block of code, whatever is in it.
fn fenced(language: &str, text: &str) -> String {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}\n")
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(Error::write(folder))?;
    fs::write(path, bytes).map_err(Error::write(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_ends_where_its_text_does() {
        assert_eq!(fenced("c", "x\n"), "```c\nx\n```\n");
        assert_eq!(fenced("text", "```\nx"), "````text\n```\nx\n````\n");
    }
}
