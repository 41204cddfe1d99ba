//! What happens when calls fail is written down for every example, and its page is up to date.
//!
//! `harness faults --soft-hca` runs it.

use std::fs;
use std::path::Path;

use harness::faults::data::Data;
use harness::faults::page::page;

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
