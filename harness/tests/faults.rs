//! The outcome of failing calls is written down for every example, and its page is up to date.
//!
//! `harness faults --soft-hca` runs it.

use std::fs;
use std::path::Path;

use harness::faults::data::Data;
use harness::faults::page::page;
use harness::transcript::Side;

#[test]
fn the_page_is_that_of_the_data() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let data = Data::read(&top.join("faults")).unwrap();
    let file = top.join("../soft-hca/docs/fault-table.md");
    let written = fs::read_to_string(&file).unwrap();
    assert!(
        written == page(&data),
        "write it anew: target/release/harness faults --page >soft-hca/docs/fault-table.md"
    );
}

/// A call returns an error's number; a completion's status has other numbers and texts.
#[test]
fn no_call_is_said_to_return_a_status() {
    let data = Data::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("faults")).unwrap();
    for (example, of_example) in &data.examples {
        for row in Side::BOTH
            .into_iter()
            .filter_map(|side| of_example.of(side))
            .flat_map(|side| &side.fails)
        {
            let says = row.says.as_deref().unwrap_or_default();
            assert!(!says.contains("returned status"), "{}: {says}", example.name);
        }
    }
}
