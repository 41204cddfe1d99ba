//! The engine's files go from the entry down to what all of them need, as its tables say.

use std::collections::BTreeMap;
use std::fs;

use super::sources::Sources;
use super::uses::uses;
use super::{rows, soft_hca};

/// The file of the engine, or its folder, that a file of the crate belongs to.
fn name(file: &str) -> Option<&str> {
    let name = file.strip_prefix("engine/")?.trim_end_matches(".rs");
    name.split('/').next().filter(|name| *name != "mod")
}

#[test]
fn files_use_those_below_them() {
    let source = soft_hca().join("core/src");
    let text = fs::read_to_string(source.join("engine/mod.rs")).unwrap();
    const HEAD: &str = "//! | file | is about";
    let rows: Vec<_> =
        text.match_indices(HEAD).flat_map(|(at, _)| rows(&text[at..], HEAD)).collect();
    // Files of a row may use each other.
    let rank: BTreeMap<&str, usize> = (0..)
        .zip(&rows)
        .flat_map(|(rank, cells)| {
            cells[0].split(", ").map(move |name| (name.trim_matches('`'), rank))
        })
        .collect();
    let mut upwards = Vec::new();
    for ((user, used), what) in uses(&Sources::read(&source)) {
        let (Some(user), Some(used)) = (name(&user), name(&used)) else { continue };
        let of = |name| rank.get(name).unwrap_or_else(|| panic!("{name} is in no row"));
        if user != used && of(user) > of(used) {
            upwards.push(format!("{user} uses {used}: {what:?}"));
        }
    }
    assert!(upwards.is_empty(), "{upwards:#?}");
    assert!(rank.len() > 50, "{rank:?}");
}
