//! An example has its code from a neighbour, and with it how that differs from the C. Each difference stands once, in
//! the README of the example that has it first; the READMEs of those that follow link to it.

use std::fs;

use harness::examples::{EXAMPLES, Example, sound};

use crate::tree::top;

/// Begins the line that names those which an example has its differences from.
const THOSE_OF: &str = "Those of [";

/// The list of differences in a README, without its heading.
fn section(example: &Example) -> String {
    let text = fs::read_to_string(top().join(example.name).join("README.md")).unwrap();
    let (_, after) = text.split_once("## Differences from the C\n").unwrap_or_default();
    after.split_once("\n## ").map_or(after, |(list, _)| list).trim().to_owned()
}

/// The entries about the example itself, and the line on those before it.
fn parts(section: &str) -> (&str, &str) {
    let (own, others) = section.split_at(section.find(THOSE_OF).unwrap_or(section.len()));
    (own.trim_end(), others)
}

/// The line on the examples of these names, which have differences of their own.
fn those_of(names: &[&str]) -> String {
    let links: Vec<_> =
        names.iter().map(|name| format!("[{name}](../{name}#differences-from-the-c)")).collect();
    match links.split_last() {
        None => String::new(),
        Some((last, [])) => format!("Those of {last} are here, too."),
        Some((last, others)) => format!("Those of {} and {last} are here, too.", others.join(", ")),
    }
}

/// Examples whose README does not name all that they have differences from, or repeats one.
pub fn incomplete() -> Vec<String> {
    let mut incomplete = Vec::new();
    for example in EXAMPLES.iter().filter(|example| example.original) {
        let list = section(example);
        let (own, others) = parts(&list);
        let before: Vec<_> = example.lineage().skip(1).collect();
        let sections: Vec<_> = before.iter().map(|other| section(other)).collect();
        let mut names = Vec::new();
        for (other, section) in before.iter().zip(&sections) {
            let (theirs, _) = parts(section);
            if !theirs.is_empty() {
                names.push(other.name);
            }
            let again =
                own.split("\n- ").filter(|point| theirs.split("\n- ").any(|of| of == *point));
            incomplete.extend(again.map(|point| format!("{} has {point} again", example.name)));
        }
        let expected = those_of(&names);
        if !others.split_whitespace().eq(expected.split_whitespace()) {
            incomplete
                .push(format!("{}/README.md: its list has to end with\n{expected}", example.name));
        }
    }
    incomplete
}

/// Entries in the reports of `./compare` that READMEs have otherwise, and examples that the reports do not name.
pub fn stale() -> Vec<String> {
    let mut stale = Vec::new();
    for page in ["docs/faithfulness.md", "docs/faithfulness-lab.md"] {
        let text = fs::read_to_string(top().join(page)).unwrap();
        for example in sound() {
            let named = text
                .split(|c: char| !c.is_alphanumeric() && c != '-')
                .any(|word| word == example.name);
            if !named {
                stale.push(format!("{page} does not name {}", example.name));
            }
            let told = format!("\n### {}\n\n{}\n", example.name, section(example));
            if example.original && !text.contains(&told) {
                stale.push(format!("{page}: the README of {} has other differences", example.name));
            }
        }
    }
    stale
}
