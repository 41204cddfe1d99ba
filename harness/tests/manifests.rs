//! Each crate says about itself what a registry shows, in the form that the registry of crates takes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The crates of the workspace as cargo reads their manifests.
fn crates() -> Vec<Value> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(top)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// The strings of a list.
fn list(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

fn is_keyword(word: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+');
    (1..=20).contains(&word.len())
        && word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word.chars().all(fits)
}

/// Mistakes in a crate's manifest.
fn problems(found: &Value) -> Vec<&'static str> {
    let text = |field: &str| found[field].as_str().unwrap_or_default();
    let folder = Path::new(text("manifest_path")).parent().unwrap();
    let (keywords, categories) = (list(&found["keywords"]), list(&found["categories"]));
    let local = found["dependencies"].as_array().unwrap().iter();
    let rules = [
        (text("description").len() >= 10, "no description"),
        (!text("license").is_empty(), "no licence"),
        (folder.join(text("readme")).is_file(), "no README"),
        ((1..=5).contains(&keywords.len()), "not one to five keywords"),
        (keywords.into_iter().all(is_keyword), "a keyword that the registry refuses"),
        ((1..=5).contains(&categories.len()), "not one to five categories"),
        (
            // Those of tests alone cargo leaves out of what it publishes.
            local
                .filter(|one| one["path"].is_string() && one["kind"] != "dev")
                .all(|one| one["req"] != "*"),
            "a crate of this workspace without a version among its dependencies",
        ),
    ];
    rules.into_iter().filter(|(holds, _)| !holds).map(|(_, what)| what).collect()
}

#[test]
fn every_crate_can_be_described() {
    let crates = crates();
    assert!(crates.len() > 20, "{}", crates.len());
    let problems: Vec<String> = crates
        .iter()
        .flat_map(|found| {
            problems(found).into_iter().map(|what| format!("{}: {what}", found["name"]))
        })
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Cargo does not look for test programs in these folders, so a file that no `mod` names would not
/// be run.
#[test]
fn every_file_of_tests_is_a_module_of_their_program() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (folder, program) in [("soft-hca/tests", "end_to_end"), ("harness/tests", "all")] {
        let text = fs::read_to_string(top.join(folder).join(program).with_extension("rs")).unwrap();
        for entry in fs::read_dir(top.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap();
            let is_file = path.extension().is_some_and(|end| end == "rs") && stem != program;
            let is_named = text.contains(&format!("\nmod {stem};\n"));
            assert!(!is_file || is_named, "{folder}/{program}.rs does not name {stem}");
        }
    }
}

/// `./check` names the programs of tests that it runs.
#[test]
fn check_runs_every_program_of_tests() {
    let check = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("check");
    let check = fs::read_to_string(check).unwrap();
    let mut run = BTreeSet::new();
    for line in check.lines().map(str::trim) {
        let names = line.strip_prefix("for one in ").and_then(|names| names.strip_suffix("; do"));
        run.extend(names.into_iter().flat_map(|names| names.split(' ')));
        let words = line.split(|c: char| c.is_whitespace() || "()\"".contains(c));
        let mut words = words.filter(|word| !word.is_empty());
        while words.by_ref().any(|word| word == "${program[@]}") {
            run.extend(words.next());
        }
    }
    let crates = crates();
    let targets = crates.iter().flat_map(|found| found["targets"].as_array().unwrap());
    let tests = targets.filter(|target| list(&target["kind"]) == ["test"]);
    let missing: Vec<_> = tests
        .map(|target| target["name"].as_str().unwrap())
        .filter(|name| !run.contains(name))
        .collect();
    assert!(run.len() > 3 && missing.is_empty(), "not run: {missing:?}");
}
