//! The lines of a program's source around the places where it calls the libraries, and what there is to read about
//! the functions that they are in.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use serde::Serialize;

use super::references::References;
use crate::entry::{Entry, Header};
use crate::place::Place;

/// Files that are taken for sources: a record may come from anybody, and what its places name is copied into
/// the page.
const EXTENSIONS: [&str; 8] = ["c", "cc", "cpp", "cxx", "h", "hh", "hpp", "rs"];
/// Bytes of a file that is read.
const LARGEST: u64 = 4 << 20;
/// Lines above a call that are searched for the beginning of its function.
const ABOVE: usize = 48;
/// Lines of comments and attributes above a function that are shown.
const COMMENT: usize = 10;
/// Lines above a call whose function is not found, and below each.
const AROUND: usize = 6;

/// Some lines of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Excerpt {
    /// The file's name as the record has it.
    file: String,
    /// Number of the first line, from 1.
    first: usize,
    /// Number of the line with the call.
    line: usize,
    lines: Vec<String>,
    /// Whether the file has changed since the recording.
    changed: bool,
}

/// The sources of a run, by file and line of the places in its record.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    excerpts: BTreeMap<String, Excerpt>,
    pub(super) references: References,
}

impl Sources {
    /// Reads those that can be read, relative to the current folder: the record has their names only.
    pub fn read(header: &Header, entries: &[Entry]) -> Self {
        let mut files: BTreeMap<&str, Option<(String, bool)>> = BTreeMap::new();
        let mut excerpts = BTreeMap::new();
        for place in entries.iter().filter_map(Entry::place) {
            let (Some(file), Some(line)) = (place.file.as_deref(), place.line) else { continue };
            let text = files.entry(file).or_insert_with(|| text(file, &header.began));
            let Some((text, changed)) = text else { continue };
            let lines: Vec<&str> = text.lines().collect();
            let cut = excerpt(&lines, line as usize, place.function_name());
            let Some((first, lines)) = cut else { continue };
            excerpts.entry(key(file, line)).or_insert_with(|| Excerpt {
                file: file.to_owned(),
                first,
                line: line as usize,
                lines,
                changed: *changed,
            });
        }
        Self { excerpts, references: References::default() }
    }

    /// With what there is to read about the functions.
    pub fn with(self, references: References) -> Self {
        Self { references, ..self }
    }

    /// The name of a place's lines, if they are there.
    pub(super) fn of(&self, place: &Place) -> Option<String> {
        let key = key(place.file.as_deref()?, place.line?);
        self.excerpts.contains_key(&key).then_some(key)
    }

    /// All of them, by these names.
    pub(super) fn all(&self) -> &BTreeMap<String, Excerpt> {
        &self.excerpts
    }
}

fn key(file: &str, line: u32) -> String {
    format!("{file}:{line}")
}

/// A file, and whether it has changed since a time.
fn text(file: &str, began: &str) -> Option<(String, bool)> {
    let extension = Path::new(file).extension()?.to_str()?;
    let known =
        fs::metadata(file).ok().filter(|known| known.is_file() && known.len() <= LARGEST)?;
    if !EXTENSIONS.contains(&extension) {
        return None;
    }
    let began = humantime::parse_rfc3339(began).ok();
    let changed =
        known.modified().ok().zip(began).is_some_and(|(at, began): (SystemTime, _)| at > began);
    Some((String::from_utf8_lossy(&fs::read(file).ok()?).into_owned(), changed))
}

/// The lines around one, from the beginning of its function with what is said above that: the number of the
/// first, and the lines. None if there is no such line.
fn excerpt(lines: &[&str], line: usize, function: Option<&str>) -> Option<(usize, Vec<String>)> {
    let at = line.checked_sub(1).filter(|at| *at < lines.len())?;
    let begins = |line: &str| function.is_some_and(|name| defines(line, name));
    let first = match (at.saturating_sub(ABOVE)..=at).rev().find(|at| begins(lines[*at])) {
        Some(begin) => {
            let said = lines[..begin].iter().rev().take(COMMENT);
            begin - said.take_while(|line| is_said(line)).count()
        }
        None => at.saturating_sub(AROUND),
    };
    // Not into the next function.
    let behind = lines[at..].iter().take(AROUND + 1);
    let end =
        behind.clone().position(|line| line.starts_with('}')).map_or(behind.len(), |end| end + 1);
    let shown = lines[first..at + end].iter().map(|line| line.replace('\t', "    "));
    Some((first + 1, shown.collect()))
}

/// Whether a line begins the definition of a function, in Rust or in C.
fn defines(line: &str, name: &str) -> bool {
    let Some((before, behind)) = line.split_once(name) else { return false };
    let is_open = behind.trim_start().starts_with(['(', '<']);
    let in_rust = before.trim_end().ends_with("fn");
    let in_c = !line.starts_with([' ', '\t']) && !line.trim_end().ends_with(';');
    is_open
        && (in_rust || in_c)
        && !before.ends_with(|sign: char| sign.is_alphanumeric() || sign == '_')
}

/// Whether a line is a comment or an attribute.
fn is_said(line: &str) -> bool {
    let line = line.trim_start();
    ["//", "#[", "/*", "*"].iter().any(|sign| line.starts_with(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUST: &str = "use a;\n\n/// Sends.\n#[inline]\npub(crate) fn our_post_send(a: u8) {\n\tcall(a);\n}\n\nfn next() {}\n";
    const C: &str = "int other(void);\n/* Sends. */\nstatic int\nour_post_send(int a)\n{\n    before();\n    return our_call(a);\n}\n";

    fn cut(text: &str, line: usize, function: Option<&str>) -> Option<(usize, Vec<String>)> {
        excerpt(&text.lines().collect::<Vec<_>>(), line, function)
    }

    #[test]
    fn a_function_is_shown_from_its_comment() {
        let (first, lines) = cut(RUST, 6, Some("our_post_send")).unwrap();
        assert_eq!((first, lines.len()), (3, 5));
        assert_eq!((lines[0].as_str(), lines[3].as_str()), ("/// Sends.", "    call(a);"));
        let (first, lines) = cut(C, 7, Some("our_post_send")).unwrap();
        assert_eq!((first, lines.last().unwrap().as_str()), (4, "}"));
        assert!(!defines("    our_post_send(a);", "our_post_send"));
        assert!(!defines("int our_post_send(int a);", "our_post_send"));
        assert!(!defines("int not_our_post_send(int a)", "our_post_send"));
    }

    #[test]
    fn lines_without_a_function_are_those_around() {
        let text: String = (1..=40).map(|line| format!("line {line}\n")).collect();
        let (first, lines) = cut(&text, 20, Some("main")).unwrap();
        assert_eq!((first, lines.len()), (14, 13));
        assert_eq!(cut(&text, 3, None).unwrap().0, 1);
        assert_eq!(cut(&text, 41, None), None);
        assert_eq!(cut(&text, 0, None), None);
        assert_eq!(cut("", 1, None), None);
    }

    #[test]
    fn only_sources_are_read() {
        assert_eq!(text("/etc/passwd", "1970-01-01T00:00:00Z"), None);
        assert_eq!(text("/nowhere/a.c", "1970-01-01T00:00:00Z"), None);
        let this = concat!(env!("CARGO_MANIFEST_DIR"), "/src/timeline/source.rs");
        let (read, changed) = text(this, "1970-01-02T00:00:00Z").unwrap();
        assert!(changed && read.contains("fn only_sources_are_read"));
        assert!(!text(this, "2200-01-01T00:00:00Z").unwrap().1);
    }
}
