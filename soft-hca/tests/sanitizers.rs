//! Programs under Valgrind's Memcheck and gcc's AddressSanitizer, which know nothing of what a peer writes. See
//! `stock.rs` about programs that are not installed.

use std::process::Command;

use programs::place::Place;
use programs::program::Program;
use programs::{LOCALHOST, assert_has, compile, compile_with, installed, tcp};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sanitizers/received.c");
const LIBRARIES: [&str; 2] = ["rdmacm", "ibverbs"];

/// The line of a receiver that finds all bytes.
const RECEIVED: &str = "received 65536, written 65536\n";

/// Runs a receiver, with words before the program and an environment, and its peer; returns the receiver's output.
fn receive(
    place: &Place,
    program: &str,
    by: &str,
    circumstances: impl FnOnce(&mut Command) -> &mut Command,
) -> String {
    let port = tcp::free_port();
    let mut receiver: Program = place.start_in(&format!("{by} {program} {port}"), circumstances);
    receiver.wait_until(|| place.listens(port));
    place.start(&format!("{program} {port} {LOCALHOST}")).succeed();
    receiver.succeed()
}

/// The number of bytes in which Memcheck has looked for pointers.
fn bytes_checked(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.split_once(" Checked ")).unwrap().1;
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// Memcheck finds nothing wrong, and does not look at unused memory of the fabric: each page at which it looks would be
/// allocated for that.
#[test]
fn memcheck_knows_what_a_peer_writes() {
    const FEW: u64 = 512 << 20;
    let place = Place::new("memcheck");
    if !installed(&["valgrind"]) {
        return;
    }
    let Some(program) = compile(&place, SOURCE, &LIBRARIES) else { return };
    let by = "valgrind -v --leak-check=summary --error-exitcode=9";
    let text = receive(&place, &program, by, |command| command);
    assert_has(&text, &[RECEIVED, "ERROR SUMMARY: 0 errors"]);
    let checked = bytes_checked(&text);
    assert!(checked < FEW, "{checked} bytes\n{text}");
    place.assert_gone();
}

/// gcc's runtime ends a program in which it is not the first library.
#[test]
fn address_sanitizer_comes_first() {
    let place = Place::new("asan");
    let options = ["-fsanitize=address"];
    let Some(program) = compile_with(&place, SOURCE, &LIBRARIES, &options) else { return };
    assert_has(&receive(&place, &program, "", |command| command), &[RECEIVED]);
    // A shell does not need the runtime, so here the user names it.
    let runtime = Command::new("cc").arg("-print-file-name=libasan.so").output().unwrap();
    let runtime = String::from_utf8(runtime.stdout).unwrap();
    let by = place.file("by");
    std::fs::write(&by, "exec \"$@\"\n").unwrap();
    let by = format!("sh {}", by.display());
    let text = receive(&place, &program, &by, |command| command.env("LD_PRELOAD", runtime.trim()));
    assert_has(&text, &[RECEIVED]);
    place.assert_gone();
}
