//! An example has its code from a neighbour, and with it how that differs from the C. Its README
//! repeats the neighbour's list, under a line that names it, so that one page has all of it.

use std::fs;

use harness::examples::{EXAMPLES, Example};

use crate::tree::top;

/// The list of differences in a README, without its heading.
fn section(example: &Example) -> String {
    let text = fs::read_to_string(top().join(example.name).join("README.md")).unwrap();
    let (_, after) = text.split_once("## Differences from the C\n").unwrap_or_default();
    after.split_once("\n## ").map_or(after, |(list, _)| list).trim().to_owned()
}

/// What is said of the example itself.
fn own(section: &str) -> &str {
    match section.find("As [") {
        Some(0) => "",
        Some(at) => section[..at].trim_end(),
        None => section,
    }
}

/// Examples whose README does not repeat what they have from others.
pub fn incomplete() -> Vec<String> {
    let mut incomplete = Vec::new();
    for example in EXAMPLES.iter().filter(|example| example.original) {
        let list = section(example);
        let mut expected = vec![own(&list).to_owned()];
        for other in example.lineage().skip(1) {
            let theirs = section(other);
            if !own(&theirs).is_empty() {
                expected.push(format!("As [{0}](../{0}):\n\n{1}", other.name, own(&theirs)));
            }
        }
        expected.retain(|part| !part.is_empty());
        let expected = expected.join("\n\n");
        if list != expected {
            incomplete
                .push(format!("{}/README.md: its list has to read\n{expected}", example.name));
        }
    }
    incomplete
}
