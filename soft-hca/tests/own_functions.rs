//! Programs that have functions of the C library of their own, as sanitizers have.

use programs::compile;
use programs::place::Place;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/own_functions/stat.c");

/// The former name of a function does not lead back to the program's own one.
#[test]
fn no_function_is_called_by_another_ones_name() {
    let place = Place::new("own-functions");
    let Some(program) = compile(&place, SOURCE, &["dl"]) else { return };
    let mut run = place.start(&format!("{program} /dev/infiniband/uverbs0"));
    assert_eq!(run.succeed(), "4 of 4\n");
    place.assert_gone();
}
