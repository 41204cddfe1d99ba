//! docs/inside.md and the tables of modules, compared with the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tree::{files, top};

mod cycles;
mod engine;
mod sources;
mod uses;

/// Uses that go up in a table: they are known, and no others come.
const EXCEPTIONS: [(&str, &str, &str); 1] = [
    // The daemon's part of the data path wakes the link's thread, whose part asks the daemon's.
    ("daemon", "env", "link"),
];

fn soft_hca() -> PathBuf {
    top().join("soft-hca")
}

fn page() -> String {
    fs::read_to_string(soft_hca().join("docs/inside.md")).unwrap()
}

/// The cells of the rows beneath a table's head that begins so.
fn rows<'t>(text: &'t str, head: &str) -> Vec<Vec<&'t str>> {
    let from = text.lines().skip_while(|line| !line.contains(head)).skip(2);
    let lines = from.map(|line| line.trim_start_matches("//! ").trim());
    let table = lines.take_while(|line| line.starts_with('|'));
    table.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// The crates of ours that a manifest has in its dependencies, those for tests apart.
fn dependencies(folder: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(soft_hca().join(folder).join("Cargo.toml")).unwrap();
    let section = manifest.split("[dependencies]\n").nth(1).unwrap_or_default();
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| line.strip_prefix("soft-hca-")?.split('.').next())
        .map(String::from)
        .collect()
}

#[test]
fn crates_use_what_the_page_says() {
    let page = page();
    let rows = rows(&page, "| crate | folder |");
    assert_eq!(rows.len(), 9);
    let mut below: BTreeSet<&str> = rows.iter().map(|cells| short(cells[0])).collect();
    for cells in &rows {
        let folder = cells[1].split("](../").nth(1).unwrap().trim_end_matches(')');
        let folder = if folder == "src" { "." } else { folder };
        let named: BTreeSet<String> = cells.get(3).map_or_else(BTreeSet::new, |uses| {
            uses.split(", ").filter(|name| !name.is_empty()).map(String::from).collect()
        });
        assert_eq!(dependencies(folder), named, "{}", cells[0]);
        below.remove(short(cells[0]));
        assert!(named.iter().all(|name| below.contains(name.as_str())), "{}: {named:?}", cells[0]);
    }
}

fn short(name: &str) -> &str {
    name.trim_matches('`').trim_start_matches("soft-hca-")
}

/// The modules of a crate's root, each with those that its code names, tests apart.
fn uses(folder: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files(folder, ".rs") {
        let inner = file.strip_prefix(folder).unwrap().with_extension("");
        let module = inner.iter().next().unwrap().to_str().unwrap().to_string();
        let is_test = |part: &OsStr| part.to_string_lossy().ends_with("tests");
        if ["lib", "fuzz", "testing"].contains(&module.as_str()) || inner.iter().any(is_test) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let entry = uses.entry(module).or_default();
        for path in code.split("crate::").skip(1) {
            let names = match path.strip_prefix('{') {
                Some(list) => list.split('}').next().unwrap().split(", ").collect(),
                None => vec![path],
            };
            let word = |name: &str| {
                let end = name.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
                name[..end.unwrap_or(name.len())].trim().to_string()
            };
            entry.extend(names.into_iter().map(word));
        }
    }
    let all: BTreeSet<String> = uses.keys().cloned().collect();
    for (module, named) in &mut uses {
        named.retain(|name| name != module && all.contains(name));
    }
    uses
}

#[test]
fn modules_use_those_below_them() {
    let mut exceptions = BTreeSet::new();
    for name in ["core", "daemon", "preload", "record"] {
        let folder = soft_hca().join(name).join("src");
        let text = fs::read_to_string(folder.join("lib.rs")).unwrap();
        let rows = rows(&text, "//! | module | what");
        let names = rows.iter().flat_map(|cells| cells[0].split(", "));
        let order: Vec<&str> = names.map(|name| name.trim_matches(['`', '[', ']'])).collect();
        let place = |module: &str| order.iter().position(|name| *name == module);
        for (module, named) in uses(&folder) {
            let at = place(&module).unwrap_or_else(|| panic!("{name}: {module} is in no table"));
            for used in named {
                let exception = (name, module.as_str(), used.as_str());
                if let Some(known) = EXCEPTIONS.iter().find(|known| **known == exception) {
                    exceptions.insert(known);
                } else {
                    assert!(place(&used).unwrap() > at, "{name}: {module} uses {used}");
                }
            }
        }
    }
    assert_eq!(exceptions.len(), EXCEPTIONS.len(), "used still: {exceptions:?}");
}

/// The functions that a step names are in one of the files that it names.
#[test]
fn steps_name_what_is_there() {
    let page = page();
    let mut count = 0;
    for step in page.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())) {
        let links = step.split("](../").skip(1);
        let named: Vec<&str> = links.map(|link| link.split(')').next().unwrap()).collect();
        let read = |file: &&str| fs::read_to_string(soft_hca().join(file)).unwrap();
        let texts: String = named.iter().map(read).collect();
        assert!(!named.is_empty(), "{step}");
        // Words in code quotes that are no links' texts.
        let quoted = step.split('`').skip(1).step_by(2);
        for word in quoted.filter(|word| word.chars().all(|c| c == '_' || c.is_ascii_lowercase())) {
            let is_there = texts.contains(&format!("fn {word}"))
                || texts.contains(&format!("mod {word};"))
                || word.starts_with("rdma_")
                || word.starts_with("ibv_");
            assert!(is_there, "{word}: {step}");
            count += 1;
        }
    }
    assert!(count > 30, "{count}");
}
