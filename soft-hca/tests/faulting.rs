//! Programs with handlers for SIGSEGV: they get the program's own faults, not the library's.

use programs::compile;
use programs::place::Place;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faulting/faulting.c");

#[test]
fn a_handler_gets_the_faults_of_its_program() {
    let place = Place::new("faulting");
    let Some(program) = compile(&place, SOURCE, &["ibverbs"]) else { return };
    for how in ["before", "sigaction", "signal"] {
        let text = place.start(&format!("{program} {how}")).succeed();
        assert_eq!(text, "its own fault\n", "{how}");
    }
    place.assert_gone();
}
