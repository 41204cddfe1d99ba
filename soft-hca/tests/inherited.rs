//! Children of `fork`, which have only the forking thread of their parent's, and its memory as it was at that moment:
//! all that they do with descriptors ends.

use programs::compile;
use programs::place::Place;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/inherited/inherited.c");

/// One child in 400 to 1,000 would meet a lock that another thread of the parent held at the fork.
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

/// Opening takes much longer, so there are fewer children.
#[test]
fn they_open_the_device_themselves() {
    children_end("open", CHILDREN / 10);
}
