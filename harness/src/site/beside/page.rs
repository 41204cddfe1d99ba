//! The page of one example.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use super::align::{self, Row, Step};
use super::pairs::{Pair, Section, sections};
use super::source::Source;
use super::{anchor, differences};
use crate::Error;
use crate::compare::originals::Originals;
use crate::compare::report;
use crate::examples::Example;
use crate::site::{contents, links};

/// The first paragraph of a page without the C.
const RUST_ALONE: &str = "Here is the Rust alone: no line of the C is in this repository. `./compare`, without \
    anything else, says where the C is from and how to build it. `./site --c DIR`, with the folder of your build, then \
    makes this page with both.\n";

/// The first paragraph of a page with both.
const BOTH: &str = "The C is from the folder that was given to `./site --c`. A call stands beside the same call; \
    where the Rust differs on purpose it is said above the function.\n";

/// The page of an example, with links as its README has them.
///
/// # Errors
/// A file that cannot be read.
pub fn page(top: &Path, originals: Option<&Originals>, example: &Example) -> Result<String, Error> {
    let c = match originals {
        Some(originals) => c_sources(originals, example)?,
        None => vec![],
    };
    let mut rust = rust_sources(top, example.name)?;
    // They name modules, and begin the program.
    rust.retain(|source| !source.path.ends_with("lib.rs") && !source.path.ends_with("main.rs"));
    let shared = rust_sources(top, "common")?;
    let sections = sections(example, &c, &rust, &shared);

    let readme = top.join(example.name).join("README.md");
    let text = fs::read_to_string(&readme).map_err(Error::read(&readme))?;
    let entries = differences::entries(report::section(&text).unwrap_or_default());
    let pairs: Vec<_> = sections.iter().flat_map(|section| &section.pairs).collect();
    let functions: Vec<_> = pairs.iter().map(|pair| (pair.name(), code(pair))).collect();
    let mut placed: BTreeMap<Option<usize>, Vec<&str>> = BTreeMap::new();
    for entry in &entries {
        placed.entry(differences::place(entry, &functions)).or_default().push(entry);
    }

    let name = example.name;
    let mut page = format!("# {name}: C and Rust\n\n[{name}](README.md): {}.\n\n", example.lesson);
    page.push_str(match (originals, c.is_empty()) {
        (None, _) => RUST_ALONE,
        (Some(_), true) => "Its C is not in the folder that was given to `./site --c`.\n",
        (Some(_), false) => BOTH,
    });
    if let Some(others) = placed.get(&None) {
        page.push_str("\n## Differences in general\n\n");
        for entry in others {
            let _ = writeln!(page, "- {entry}");
        }
    }
    let mut at = 0;
    for section in &sections {
        let stem = section.stem();
        let _ = write!(page, "\n## {stem}\n\n{}", files(section, example.name));
        declarations(&mut page, section);
        for pair in &section.pairs {
            let anchor = anchor(&stem, pair.name());
            let _ = writeln!(page, "\n### `{}` {{#{anchor}}}\n", pair.name());
            if let Some(rust) = pair.rust.filter(|rust| section.rust != Some(rust.source)) {
                let _ = writeln!(page, "In Rust in {}.\n", link(&rust.source.path, example.name));
            }
            for entry in placed.get(&Some(at)).into_iter().flatten() {
                let _ = writeln!(page, "> **On purpose:** {entry}\n");
            }
            let [c, rust] = [pair.c, pair.rust]
                .map(|place| place.map_or(&[][..], |place| place.function.lines.as_slice()));
            page.push_str(&both(c, rust));
            at += 1;
        }
    }
    Ok(page)
}

/// The sources of the C, called as in the folder where they are. Bytes that are no UTF-8 become `�`.
fn c_sources(originals: &Originals, example: &Example) -> Result<Vec<Source>, Error> {
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).map_err(Error::read(&path))?;
        let name = path.file_name().unwrap_or(path.as_os_str());
        Ok(Source::c(name.into(), &String::from_utf8_lossy(&bytes)))
    };
    originals.sources(example)?.into_iter().map(read).collect()
}

/// The sources of a crate, by their paths from the top of the repository.
fn rust_sources(top: &Path, package: &str) -> Result<Vec<Source>, Error> {
    let read = |path: PathBuf| {
        let text = fs::read_to_string(top.join(&path)).map_err(Error::read(&path))?;
        Ok(Source::rust(path, &text))
    };
    contents::sources(top, package)?.into_iter().map(read).collect()
}

/// The code of either side, without comments.
fn code(pair: &Pair<'_>) -> String {
    let places = [pair.c, pair.rust].into_iter().flatten();
    let lines = places.flat_map(|place| &place.function.lines);
    let code = lines.filter(|line| !align::is_comment(line));
    code.fold(String::new(), |code, line| code + line + "\n")
}

/// Files that a section is from.
fn files(section: &Section<'_>, example: &str) -> String {
    let mut files: Vec<String> =
        section.c.iter().map(|source| format!("`{}`", source.path.display())).collect();
    files.extend(section.rust.map(|source| link(&source.path, example)));
    files.join(", ") + "\n"
}

/// A link from the README of an example to a source.
fn link(path: &Path, example: &str) -> String {
    let to = links::relative(&Path::new(example).join("README.md"), path);
    format!("[`{}`]({to})", path.display())
}

/// Lines outside of functions, closed where there are functions to read first.
fn declarations(page: &mut String, section: &Section<'_>) {
    // The header declares the names that a source uses.
    let of = |source: &&Source| source.declarations.clone();
    let mut sources = section.c.clone();
    sources.sort_by_key(|source| source.path.extension().is_some_and(|extension| extension == "c"));
    let c: Vec<String> = sources.iter().flat_map(of).collect();
    let rust: Vec<String> = section.rust.iter().flat_map(of).collect();
    if c.is_empty() && rust.is_empty() {
        return;
    }
    let open = if section.pairs.is_empty() { " open" } else { "" };
    let _ = write!(
        page,
        "\n<details{open}><summary>What is outside of functions</summary>\n{}</details>\n",
        both(&c, &rust)
    );
}

/// Both sides as HTML. Without an empty line, at which Markdown would begin.
fn both(c: &[String], rust: &[String]) -> String {
    let mut html = "<div class=\"beside\">\n".to_owned();
    for Step { rows } in align::steps(c, rust) {
        html.push_str("<div class=\"step\">");
        side(&mut html, "c", "C", c, rows.iter().map(|row: &Row| row.c));
        side(&mut html, "rust", "Rust", rust, rows.iter().map(|row: &Row| row.rust));
        html.push_str("</div>\n");
    }
    html + "</div>\n"
}

/// The lines of one side, each in its row, after the language's name for where they do not stand in columns.
fn side(
    html: &mut String,
    class: &str,
    language: &str,
    lines: &[String],
    rows: impl Iterator<Item = Option<usize>>,
) {
    let mut cells = String::new();
    for (row, at) in rows.enumerate() {
        let Some(line) = at.map(|at| &lines[at]) else { continue };
        let comment = if align::is_comment(line) { " comment" } else { "" };
        let text = if line.is_empty() { "&#32;".to_owned() } else { escaped(line) };
        let _ = write!(
            cells,
            "<span class=\"{class}{comment}\" style=\"grid-row:{}\">{text}</span>",
            row + 1
        );
    }
    if !cells.is_empty() {
        let _ = write!(html, "<b class=\"{class}\">{language}</b>{cells}");
    }
}

/// Text in which there is no HTML, no link of Markdown and no command of mdBook.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '{' => escaped.push_str("&#123;"),
            '[' => escaped.push_str("&#91;"),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(String::from).collect()
    }

    #[test]
    fn code_becomes_html_in_rows() {
        let html = both(&lines("ab(&x);\n\nb[1] {{#x}};"), &lines("// <c>\nab(x);"));
        assert_eq!(
            html,
            "<div class=\"beside\">\n\
             <div class=\"step\"><b class=\"c\">C</b>\
             <span class=\"c\" style=\"grid-row:2\">ab(&amp;x);</span>\
             <span class=\"c\" style=\"grid-row:3\">&#32;</span>\
             <span class=\"c\" style=\"grid-row:4\">b&#91;1] &#123;&#123;#x}};</span>\
             <b class=\"rust\">Rust</b>\
             <span class=\"rust comment\" style=\"grid-row:1\">// &lt;c&gt;</span>\
             <span class=\"rust\" style=\"grid-row:2\">ab(x);</span></div>\n\
             </div>\n"
        );
    }
}
