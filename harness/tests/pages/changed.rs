//! Where a README says that a `diff` of two examples' sources shows all of what it tells, it names the files that differ,
//! and no others.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use harness::examples::EXAMPLES;
use regex::Regex;

use crate::tree::{files, top};

/// The section of a README about the changes, up to the next heading, and the two examples that it compares.
fn told(readme: &str) -> Option<(&str, &str, &str)> {
    let says =
        Regex::new(r"`diff -ru (\S+)/src (\S+)/src` shows all of it").expect("a constant pattern");
    let found = says.captures(readme)?;
    let at = found.get(0)?;
    let begin = readme[..at.start()].rfind("\n## ")?;
    let end = readme[at.end()..].find("\n## ").map_or(readme.len(), |end| at.end() + end);
    Some((found.get(1)?.as_str(), found.get(2)?.as_str(), &readme[begin..end]))
}

/// The files that a section names. A line that has something "as before" names what stays.
fn named(section: &str) -> BTreeSet<String> {
    let file = Regex::new(r"`(\w+\.rs)`").expect("a constant pattern");
    let lines = section.lines().filter(|line| !line.contains("as before"));
    lines.flat_map(|line| file.captures_iter(line)).map(|found| found[1].to_owned()).collect()
}

/// The files that differ, or that only one has.
fn differing(before: &Path, after: &Path) -> BTreeSet<String> {
    let names = [before, after].into_iter().flat_map(|folder| files(folder, ".rs"));
    let names: BTreeSet<_> =
        names.filter_map(|file| file.file_name().map(|name| name.to_owned())).collect();
    let text = |folder: &Path, name: &OsString| fs::read_to_string(folder.join(name)).ok();
    let differing = names.iter().filter(|name| text(before, name) != text(after, name));
    differing.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// Mistakes found, and the number of READMEs with such a section.
pub fn problems() -> (Vec<String>, usize) {
    let (mut problems, mut pages) = (Vec::new(), 0);
    for example in EXAMPLES {
        let readme = fs::read_to_string(top().join(example.name).join("README.md")).unwrap();
        let Some((before, after, section)) = told(&readme) else { continue };
        pages += 1;
        let folder = |name: &str| top().join(name).join("src");
        let (named, differing) = (named(section), differing(&folder(before), &folder(after)));
        if after != example.name || named != differing {
            problems.push(format!(
                "{}/README.md: besides what is named there differ {:?}, and do not differ {:?}",
                example.name,
                differing.difference(&named).collect::<Vec<_>>(),
                named.difference(&differing).collect::<Vec<_>>(),
            ));
        }
    }
    (problems, pages)
}

#[test]
fn files_are_named_in_the_section_that_tells_of_the_diff() {
    let readme = "# x\n\n## What changed\n\n`diff -ru a/src b/src` shows all of it: `c.rs`, `d.rs`.\n\
                  As `e.rs`, as before.\n\n## Other\n\n`f.rs`\n";
    let (before, after, section) = told(readme).unwrap();
    assert_eq!((before, after), ("a", "b"));
    assert_eq!(named(section).into_iter().collect::<Vec<_>>(), ["c.rs", "d.rs"]);
    assert_eq!(told("# x\n"), None);
}
