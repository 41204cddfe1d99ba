//! Files of a crate that use each other in a circle: none of them can be understood, tested or replaced
//! without the others.
//!
//! [`uses`] says what counts as a use.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::soft_hca;
use super::sources::Sources;
use super::uses::{Uses, uses};

/// Crates of soft-hca, each by its folder.
const CRATES: [&str; 9] =
    [".", "core", "daemon", "fault", "faulty", "preload", "record", "roce", "verbs"];

/// For each strongly connected component of more than one file its files.
fn components(uses: &Uses) -> Vec<BTreeSet<&str>> {
    let mut used: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (file, other) in uses.keys() {
        used.entry(file).or_default().push(other);
    }
    let reached_from = |file: &str| {
        let mut reached = BTreeSet::new();
        let mut left = used[file].clone();
        while let Some(other) = left.pop() {
            if reached.insert(other) {
                left.extend(used.get(other).into_iter().flatten());
            }
        }
        reached
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        used.keys().map(|file| (*file, reached_from(file))).collect();
    let mut components: Vec<BTreeSet<&str>> = Vec::new();
    for (file, others) in &reached {
        let is_back = |other: &&str| reached.get(other).is_some_and(|back| back.contains(file));
        let component: BTreeSet<&str> = others.iter().copied().filter(is_back).collect();
        if component.len() > 1 && !components.contains(&component) {
            components.push(component);
        }
    }
    components
}

/// A component with the uses that make it.
fn shown(name: &str, component: &BTreeSet<&str>, uses: &Uses) -> String {
    let mut text = format!("{name}: {} files in a circle: {component:?}\n", component.len());
    for ((file, other), what) in uses {
        if component.contains(file.as_str()) && component.contains(other.as_str()) {
            let what: Vec<&str> = what.iter().map(String::as_str).collect();
            writeln!(text, "    {file} uses {other}: {}", what.join(", ")).unwrap();
        }
    }
    text
}

#[test]
fn files_use_each_other_in_no_circle() {
    let mut circles = String::new();
    for name in CRATES {
        let uses = uses(&Sources::read(&soft_hca().join(name).join("src")));
        for component in components(&uses) {
            circles += &shown(name, &component, &uses);
        }
    }
    assert!(circles.is_empty(), "{circles}");
}

/// An imported name and an exported one lead to the file that has the item; methods and macros count, tests
/// do not.
#[test]
fn uses_are_found_on_their_way() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("layers");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("b")).unwrap();
    for (file, text) in [
        ("lib.rs", "#[macro_use]\nmod d;\nmod a;\nmod b;\npub use a::A;"),
        ("a.rs", "use crate::b::again;\npub struct A { pub part: Box<crate::b::Part> }"),
        ("b.rs", "mod c;\npub use c::{last as again, Part};"),
        ("b/c.rs", "pub struct Part;\npub fn last(a: &crate::A) { a.work(made!(1)); }"),
        (
            "d.rs",
            "impl crate::A { pub fn work(&self, _: u8) {} }\nmacro_rules! made { ($a:expr) => { $a } }",
        ),
    ] {
        let tests = "\n#[cfg(test)]\nmod tests { use crate::d::work; }\n";
        fs::write(folder.join(file), format!("{text}{tests}")).unwrap();
    }
    let uses = uses(&Sources::read(&folder));
    fs::remove_dir_all(&folder).unwrap();
    let expected = [("a.rs", "b/c.rs"), ("b/c.rs", "a.rs"), ("b/c.rs", "d.rs"), ("d.rs", "a.rs")];
    let found: Vec<_> = uses.keys().map(|(file, other)| (file.as_str(), other.as_str())).collect();
    assert_eq!(found, expected);
    let what = &uses[&("b/c.rs".to_string(), "d.rs".to_string())];
    assert_eq!(what.iter().collect::<Vec<_>>(), ["A::work", "made!"]);
    assert_eq!(components(&uses), [BTreeSet::from(["a.rs", "b/c.rs", "d.rs"])]);
}
