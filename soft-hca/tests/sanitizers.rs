//! Programs under Valgrind's Memcheck and gcc's AddressSanitizer, which know nothing of what a peer writes. See
//! `stock.rs` about programs that are not installed.

use std::path::Path;
use std::process::Command;

use programs::place::Place;
use programs::program::Program;
use programs::{
    LOCALHOST, assert_has, compile, compile_by, compile_with, installed, lacks, skipped, tcp,
};

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

/// The page whose rows say of all of a program's cases: their number, then racy and right ones with a report of
/// ThreadSanitizer's, of AddressSanitizer's, and others that are not counted here.
const PAGE: &str = include_str!("../docs/sanitizers.md");

/// The cells of a row of the page.
fn page(row: &str) -> Vec<&'static str> {
    let begins = format!("| {row} | ");
    let row = PAGE.lines().find(|line| line.starts_with(&begins)).unwrap();
    row.trim_end_matches(" |").split(" | ").skip(1).collect()
}

/// The cell of the page for these runs.
fn cell(runs: &[Run]) -> String {
    let found =
        |is_racy: bool| runs.iter().filter(|run| run.is_racy == is_racy && run.status != 0).count();
    format!("{} / {}", found(true), found(false))
}

const RACES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/races/races.c");
const TARGETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/races/targets.c");

/// The exit status of a program with a report of ThreadSanitizer's.
const RACE: i32 = 66;

/// A case that was run: whether ThreadSanitizer, AddressSanitizer or MemorySanitizer is to find it, its name, whether it was
/// the racy one, and its exit status.
#[derive(Debug)]
struct Run {
    by: char,
    name: String,
    is_racy: bool,
    status: i32,
}

/// Whether a compiler can build programs with an option for a sanitizer: clang's runtime is a package of its own.
fn has_runtime(compiler: &str, option: &str, place: &Place) -> bool {
    let empty = place.file("empty.c");
    std::fs::write(&empty, "int main(void) { return 0; }\n").unwrap();
    let mut build = Command::new(compiler);
    build.arg(option).arg(&empty).arg("-o").arg(place.file("empty"));
    installed(&[compiler])
        && (build.output().unwrap().status.success()
            || lacks(&format!("{compiler} {option}"), "package libclang-rt-dev"))
}

/// Builds the cases in C by a compiler with an option, and runs them under circumstances; none if it cannot build them.
fn races(
    source: &str,
    compiler: &str,
    option: &str,
    environment: [&str; 2],
) -> Option<(String, Vec<Run>)> {
    let place = Place::new("races");
    if !has_runtime(compiler, option, &place) {
        return None;
    }
    // clang 16 and later look at arguments of calls, too, and nobody tells them what libraries have filled in.
    let arguments = (option == "-fsanitize=memory").then_some("-fno-sanitize-memory-param-retval");
    let options: Vec<&str> = ["-g", option].into_iter().chain(arguments).collect();
    let program = compile_by(compiler, &place, source, &["ibverbs", "pthread"], &options)?;
    Some(run_all(&place, &program, environment))
}

/// Options of AddressSanitizer's runtime: variables of functions that have returned are looked at.
const ADDRESS: &str = "detect_leaks=0:detect_stack_use_after_return=1";

/// Options of rustc for ThreadSanitizer: its standard library is not built with it.
const RUST_THREAD: [&str; 3] = [
    "-Zsanitizer=thread",
    "-Cunsafe-allow-abi-mismatch=sanitizer",
    "-Clink-arg=-Wl,--export-dynamic",
];

/// Builds the cases in Rust with options, and runs them; none if that cannot be done, as distributions' compilers have no
/// runtime.
fn races_in_rust(options: &[&str], environment: [&str; 2]) -> Option<(String, Vec<Run>)> {
    const VERBS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/races/verbs.c");
    const RACES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/races/races.rs");
    let place = Place::new("races-rust");
    let rustc = |source: &Path, more: &[&str]| {
        let mut build = Command::new("rustc");
        // The stable compiler takes these options, too.
        build.env("RUSTC_BOOTSTRAP", "1").args(["--edition", "2024", "-g", "-Copt-level=1"]);
        build.args(options).args(more).arg(source).arg("-o").arg(place.file("program"));
        build.output().unwrap()
    };
    let empty = place.file("empty.rs");
    std::fs::write(&empty, "fn main() {}\n").unwrap();
    if !installed(&["rustc"]) {
        return None;
    }
    if !rustc(&empty, &[]).status.success() {
        skipped(format_args!("this rustc cannot build with {options:?}"));
        return None;
    }
    let verbs = compile_by("gcc", &place, VERBS, &[], &["-g", "-c"])?;
    let output = rustc(Path::new(RACES), &[&format!("-Clink-arg={verbs}"), "-libverbs"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let program = place.file("program").to_str().unwrap().to_string();
    Some(run_all(&place, &program, environment))
}

/// Runs all cases of a program under circumstances.
fn run_all(place: &Place, program: &str, [name, value]: [&str; 2]) -> (String, Vec<Run>) {
    let mut all = place.start_in(&format!("{program} all"), |command| {
        // ThreadSanitizer's runtime waits for a second at each end.
        command.env("TSAN_OPTIONS", "atexit_sleep_ms=0").env("ASAN_OPTIONS", ADDRESS);
        command.env(name, value)
    });
    let text = all.succeed();
    place.assert_gone();
    let runs = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [by @ ("T" | "A" | "M"), name, kind @ ("racy" | "right"), status] = words[..] else {
            return None;
        };
        let (by, name) = (by.chars().next()?, name.to_string());
        Some(Run { by, name, is_racy: kind == "racy", status: status.parse().ok()? })
    });
    let runs: Vec<Run> = runs.collect();
    (text, runs)
}

/// Each race is reported, with the place of the post and the name of the device's queue, and nothing of the programs
/// without one: by gcc's runtime, which is a library, and clang's, which is a part of the program.
#[test]
fn races_with_the_device_are_found() {
    for compiler in ["gcc", "clang"] {
        let Some((text, runs)) = races(RACES, compiler, "-fsanitize=thread", ["LANG", "C"]) else {
            continue;
        };
        assert_eq!(
            page("all of races.c")[..2],
            [(runs.len() / 2).to_string(), cell(&runs)],
            "{compiler}\n{text}"
        );
        assert_found_by('T', RACE, &text, &runs);
        assert_has(&text, &["'device: send queue of qp ", "'device: receive queue of qp "]);
        let reported = text.split("WARNING: ThreadSanitizer").nth(1).unwrap();
        assert_has(reported, &[" store ", " post_send ", " send_store ", "/races.c:"]);
    }
}

/// Mistakes that a sanitizer is for are found, with the status that its reports have, and nothing in the programs without a mistake. It
/// may find what another one is for.
fn assert_found_by(own: char, found: i32, text: &str, runs: &[Run]) {
    for Run { by, name, is_racy, status } in runs {
        let is_found = *status == found;
        assert!(is_found || *status == 0, "{name} ends with {status}\n{text}");
        let expected = *is_racy && (*by == own || is_found);
        assert_eq!(is_found, expected, "{name}, racy: {is_racy}\n{text}");
    }
}

/// All of a program's races are found, as the page says, and nothing in the programs without one.
fn assert_all_found(row: &str, text: &str, runs: &[Run]) {
    assert_eq!(page(row)[..2], [(runs.len() / 2).to_string(), cell(runs)], "{text}");
    for Run { name, is_racy, status, .. } in runs {
        let expected = if *is_racy { RACE } else { 0 };
        assert_eq!(*status, expected, "{name}, racy: {is_racy}\n{text}");
    }
}

/// So are those of programs in Rust, by the runtime that its toolchains bring along.
#[test]
fn races_in_rust_are_found() {
    let Some((text, runs)) = races_in_rust(&RUST_THREAD, ["LANG", "C"]) else { return };
    assert_all_found("all of races.rs", &text, &runs);
    assert_has(&text, &["'device: send queue of qp ", "'device: answers to qp ", "/races.rs:"]);
}

/// So is each race with a peer's operation at the program's memory; the report names the peer, its work request and the
/// line that has posted it.
#[test]
fn races_with_peers_are_found() {
    for compiler in ["gcc", "clang"] {
        let Some((text, runs)) = races(TARGETS, compiler, "-fsanitize=thread", ["LANG", "C"])
        else {
            continue;
        };
        assert_eq!(
            page("all of targets.c")[..2],
            [(runs.len() / 2).to_string(), cell(&runs)],
            "{compiler}\n{text}"
        );
        assert_found_by('T', RACE, &text, &runs);
        for (words, place) in [
            ("RDMA write", "#0 rdma_write_of_a_peer"),
            ("RDMA read", "#0 rdma_read_of_a_peer"),
            ("atomic", "#0 atomic_operation_of_a_peer"),
        ] {
            let by = format!("'device: {words} wr_id 0x7 by targets[");
            let parts = [&by[..], "] at targets.c:", place];
            assert_has(&text, &parts);
        }
    }
}

/// A thread that takes an event finds what another one has stored before it asked for the event, without a lock; and the
/// library's own data, which both use, are nobody's races.
#[test]
fn events_are_behind_what_has_asked_for_them() {
    const THREADS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sanitizers/threads.c");
    let place = Place::new("threads");
    for compiler in ["gcc", "clang"] {
        let options = ["-g", "-fsanitize=thread"];
        if !has_runtime(compiler, options[1], &place) {
            continue;
        }
        let libraries = ["rdmacm", "ibverbs", "pthread"];
        let Some(program) = compile_by(compiler, &place, THREADS, &libraries, &options) else {
            return;
        };
        let text = place.start(&program).succeed();
        assert_eq!(text, "all notes\n", "{compiler}");
    }
    place.assert_gone();
}

/// Memory that is gone is reported before the device accesses it, or when it has.
#[test]
fn memory_that_is_gone_is_found() {
    for compiler in ["gcc", "clang"] {
        let Some((text, runs)) = races(RACES, compiler, "-fsanitize=address", ["LANG", "C"]) else {
            continue;
        };
        for Run { by, name, is_racy, status } in runs {
            assert_eq!(
                status != 0,
                is_racy && by == 'A',
                "{compiler}: {name}, racy: {is_racy}\n{text}"
            );
        }
        assert_has(
            &text,
            &[
                "soft-hca: the device reads 64 bytes at 0x",
                "soft-hca: the device writes 64 bytes at 0x",
            ],
        );
        assert_has(
            &text,
            &["soft-hca: 200 bytes at 0x", "heap-use-after-free", "heap-buffer-overflow"],
        );
    }
}

/// So is memory that is gone when a peer accesses it: the line before the report names the peer, its request and its place.
#[test]
fn targets_that_are_gone_are_found() {
    for compiler in ["gcc", "clang"] {
        let Some((text, runs)) = races(TARGETS, compiler, "-fsanitize=address", ["LANG", "C"])
        else {
            continue;
        };
        assert_eq!(page("all of targets.c")[2], cell(&runs), "{compiler}\n{text}");
        assert_found_by('A', 1, &text, &runs);
        for (words, place) in [
            ("writes 64 bytes", "RDMA write wr_id 0x7 of qp "),
            ("reads 64 bytes", "RDMA read wr_id 0x7 of qp "),
            ("writes 8 bytes", "atomic wr_id 0x7 of qp "),
        ] {
            assert_has(&text, &[&format!("soft-hca: the device {words} at 0x"), place]);
        }
        assert_has(&text, &["] at targets.c:", "heap-use-after-free", "stack-use-after-return"]);
    }
}

/// MemorySanitizer reports what is sent and was never written; what has come is written. gcc has none.
#[test]
fn bytes_never_written_are_found() {
    const STATUS: i32 = 1;
    for (source, row) in [(RACES, "all of races.c"), (TARGETS, "all of targets.c")] {
        let Some((text, runs)) = races(source, "clang", "-fsanitize=memory", ["LANG", "C"]) else {
            return;
        };
        assert_eq!(page(row)[3], cell(&runs), "{text}");
        assert_found_by('M', STATUS, &text, &runs);
        if source == RACES {
            let line = "bytes at 0x";
            assert_has(&text, &["soft-hca: the device reads 64 ", line, "was never written"]);
            assert_has(
                &text,
                &["WARNING: MemorySanitizer: use-of-uninitialized-value", "/races.c:"],
            );
        }
    }
}

/// Without soft-hca's help none is: no access of the device's is the program's own.
#[test]
fn no_races_are_found_without_help() {
    let Some((text, runs)) = races(RACES, "gcc", "-fsanitize=thread", ["SOFT_HCA_HOOK", "0"])
    else {
        return;
    };
    assert_eq!(page("all of races.c")[6], cell(&runs), "{text}");
    assert_eq!(cell(&runs), "0 / 0", "{text}");
}

/// Without a sanitizer all succeeds.
#[test]
fn nobody_else_sees_races() {
    let Some((text, runs)) = races(RACES, "cc", "-O1", ["LANG", "C"]) else { return };
    assert!(runs.iter().all(|run| run.status == 0), "{text}");
    let Some((text, runs)) = races_in_rust(&[], ["LANG", "C"]) else { return };
    assert!(runs.iter().all(|run| run.status == 0), "{text}");
}

/// Others that a program may be built with, or run by, find nothing in a program without a mistake, and nothing that is
/// the library's.
#[test]
fn others_are_silent() {
    let place = Place::new("others");
    for (compiler, option) in [
        ("gcc", "undefined"),
        ("clang", "undefined"),
        ("gcc", "leak"),
        ("gcc", "address,undefined"),
        ("clang", "address"),
    ] {
        let options = ["-g".to_string(), format!("-fsanitize={option}")];
        if !has_runtime(compiler, &options[1], &place) {
            continue;
        }
        let options = options.each_ref().map(|option| &option[..]);
        let Some(program) = compile_by(compiler, &place, SOURCE, &LIBRARIES, &options) else {
            return;
        };
        let text = receive(&place, &program, "", |command| command);
        assert_eq!(text, RECEIVED, "{compiler} -fsanitize={option}");
    }
    if !installed(&["valgrind"]) {
        return;
    }
    let Some(program) = compile_with(&place, SOURCE, &LIBRARIES, &["-g"]) else { return };
    let by = "valgrind --tool=helgrind --error-exitcode=9";
    assert_has(&receive(&place, &program, by, |command| command), &[RECEIVED]);
    place.assert_gone();
}

/// `soft-hca doctor` names the sanitizer, and says whether it is told of the device.
#[test]
fn doctor_names_it() {
    let place = Place::new("doctor-names");
    for (compiler, option, expected) in [
        ("gcc", "thread", "ThreadSanitizer, which is told what the device does"),
        ("clang", "address", "AddressSanitizer, which is told what the device does"),
        ("clang", "memory", "MemorySanitizer, which is told what the device does"),
        ("gcc", "undefined", "UndefinedBehaviorSanitizer"),
    ] {
        let options = ["-g".to_string(), format!("-fsanitize={option}")];
        if !has_runtime(compiler, &options[1], &place) {
            continue;
        }
        let options = options.each_ref().map(|option| &option[..]);
        let Some(program) = compile_by(compiler, &place, RACES, &["ibverbs", "pthread"], &options)
        else {
            return;
        };
        let output =
            place.command(&["doctor", "--", &program, "send-store", "right"]).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_has(&text, &[&format!("ok       sanitizer: {expected}\n")]);
    }
}
