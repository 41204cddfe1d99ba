//! Children of `fork`, which have of their parent's threads only the one that has forked, and its memory as it was at that
//! moment: whatever they do with descriptors ends.

use programs::compile;
use programs::place::Place;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/inherited/inherited.c");

/// A lock that another thread of the parent had at that moment would be met once in 400 to 1,000 children.
const CHILDREN: u32 = 3000;

fn children_end(what: &str, children: u32) {
    let place = Place::new(&format!("inherited-{what}"));
    let Some(program) = compile(&place, SOURCE, &["ibverbs", "pthread"]) else { return };
    let text = place.start(&format!("{program} {what} {children}")).succeed();
    assert_eq!(text, "all have ended\n");
    place.assert_gone();
}

#[test]
fn they_close_what_they_have_inherited() {
    children_end("close", CHILDREN);
}

#[test]
fn they_put_files_over_it() {
    children_end("dup2", CHILDREN);
}

#[test]
fn they_read_folders() {
    children_end("folder", CHILDREN / 2);
}

/// Opening takes much longer, and the window is as short.
#[test]
fn they_open_the_device_themselves() {
    children_end("open", CHILDREN / 10);
}
