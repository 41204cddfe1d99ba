//! The map: the table of the examples in README.md and the course.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use harness::examples::EXAMPLES;
use harness::map;

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

#[test]
fn pages_have_the_map_as_it_is() {
    let differing = map::differing(top()).unwrap();
    let files: Vec<_> = differing.iter().map(|(file, _)| file).collect();
    assert!(files.is_empty(), "run target/release/harness map, which writes {files:?}");
}

#[test]
fn all_examples_are_in_their_order_and_each_lesson_is_there_once() {
    let names: Vec<_> = map::order().map(|(name, _)| name).collect();
    assert_eq!(names, EXAMPLES.iter().map(|example| example.name).collect::<Vec<_>>());
    let lessons: Vec<_> = map::lessons().collect();
    let entries = fs::read_dir(top().join("lessons")).unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.get(..2)?.parse().ok());
    assert_eq!(lessons.iter().copied().collect::<BTreeSet<u32>>(), numbers.collect());
    assert_eq!(lessons.len(), lessons.iter().collect::<BTreeSet<_>>().len());
}

/// An example's README names the same neighbour, which comes before it.
#[test]
fn a_neighbour_is_the_one_of_the_readme() {
    let mut before = BTreeSet::new();
    let mut compared = 0;
    for (name, from) in map::order() {
        if let Some(from) = from {
            assert!(before.contains(from), "{name}: {from} comes later");
            let readme = fs::read_to_string(top().join(name).join("README.md")).unwrap();
            let command = format!("diff -ru {from}/src {name}/src");
            assert!(readme.contains(&command), "{name}/README.md has no {command:?}");
            compared += 1;
        }
        before.insert(name);
    }
    assert!(compared > 10);
}
