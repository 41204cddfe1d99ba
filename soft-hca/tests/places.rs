//! Places in the source: findings, entries and calls name where the program has made the call, as far as
//! its file tells.

use std::fs;
use std::process::{Command, Stdio};

use programs::place::Place;
use programs::traffic::Traffic;
use programs::{LIMIT, assert_has, comes_about, compile_with, installed, polls_are_seen, rping};
use serde_json::Value;
use soft_hca_record::{Entry, Reader, What};

const MISTAKES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/check/mistakes.c");

/// The number of the line of a source that has a text.
fn line(file: &str, text: &str) -> usize {
    let source = fs::read_to_string(file).unwrap();
    1 + source.lines().position(|line| line.contains(text)).unwrap()
}

/// The first finding of a program that is compiled with these options, in the place's folder.
fn finding(name: &str, options: &[&str]) -> Option<(Place, Value)> {
    if !polls_are_seen() {
        return None;
    }
    let place = Place::new(name);
    let program = compile_with(&place, MISTAKES, &["ibverbs"], options)?;
    let file = place.file("findings");
    let mut command = place.command(&["check", "--format", "json", "-o"]);
    let command = command.arg(&file).args(["--", &program, "unsignaled-run", "wrong"]);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(66));
    let findings: Vec<Value> = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(findings.len(), 1, "{findings:?}");
    Some((place, findings[0]["source"].clone()))
}

/// Without optimization `ibv_post_send` is a function of the program's own, of a header: its caller is the
/// place.
#[test]
fn with_debug_information_it_is_a_line() {
    let post = line(MISTAKES, "ibv_post_send(side.qp");
    for options in ["-O0", "-O2"] {
        let name = format!("places-line{options}");
        let Some((place, source)) = finding(&name, &["-g", options]) else { return };
        assert_eq!(source["file"].as_str().unwrap(), MISTAKES, "{options}: {source}");
        assert_eq!(source["line"].as_u64(), Some(post as u64), "{options}: {source}");
        assert_eq!(source["call"], "ibv_post_send", "{options}");
        let program = place.file("mistakes");
        let run = |format: &str, suppress: &str| {
            let mut command = place.command(&["check", "--format", format, "--suppress", suppress]);
            let command = command.arg("--").arg(&program).args(["unsignaled-run", "wrong"]);
            let output = command.output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        if options == "-O2" {
            let (_, text) = run("text", "leaked");
            assert_has(&text, &[&format!("\n    in send_message at {MISTAKES}:{post}\n")]);
            let (_, log) = run("sarif", "leaked");
            let log: Value = serde_json::from_str(&log).unwrap();
            let location = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
            assert_eq!(location["artifactLocation"]["uri"], format!("file://{MISTAKES}"));
            assert_eq!(location["region"]["startLine"].as_u64(), Some(post as u64));
            let (status, text) = run("text", &format!("unsignaled-run:mistakes.c:{post}"));
            assert_eq!((status, &text[..]), (Some(0), "Nothing was found.\n"));
        }
        place.assert_gone();
    }
}

#[test]
fn without_it_it_is_a_function_or_an_offset() {
    let Some((_place, source)) = finding("places-symbol", &["-fno-inline"]) else { return };
    assert_eq!(source["function"], "send_message");
    assert!(source["line"].is_null() && source["missing"].as_str().unwrap().contains("-g"));
    let Some((place, source)) = finding("places-stripped", &["-s", "-fno-inline"]) else { return };
    assert!(source["function"].is_null() && source["line"].is_null(), "{source}");
    assert!(source["offset"].as_u64().unwrap() > 0);
    assert!(source["build_id"].as_str().is_some_and(|id| id.len() == 40), "{source}");
    let module = place.file("mistakes");
    assert!(module.ends_with(source["module"].as_str().unwrap()), "{source}");
}

/// A program in Rust that calls by inline functions of a crate, on both sides of a run: calls in its own
/// source, each once.
#[test]
fn a_program_in_rust_and_its_calls() {
    let place = Place::new("places-rust");
    let keeper = place.keep();
    let mut recorder = place.command(&["record", "-o", "run.shr", "--fabric", place.fabric_name()]);
    let mut recorder = recorder.stderr(Stdio::null()).spawn().unwrap();
    let has_begun = || fs::metadata(place.file("run.shr")).is_ok_and(|found| found.len() > 0);
    assert!(comes_about(LIMIT, has_begun), "nothing is recorded");
    let mut pair = Traffic::start(&place, "--bytes 64KiB");
    pair.succeed();
    let pid = recorder.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert!(recorder.wait().unwrap().success());
    place.end(keeper);
    let file = fs::File::open(place.file("run.shr")).unwrap();
    let entries: Vec<Entry> =
        Reader::new(std::io::BufReader::new(file)).unwrap().map(Result::unwrap).collect();
    let of_program = entries.iter().filter(|entry| {
        matches!(entry.what, What::SendPosted(_) | What::Call(_) | What::Polled(_))
    });
    let mut lines = 0;
    for entry in of_program {
        let source = entry.place().unwrap_or_else(|| panic!("no place: {entry:?}"));
        let file = source.file.as_deref().unwrap_or_else(|| panic!("no file: {source:?}"));
        assert!(file.contains("soft-hca/traffic/src/"), "{source:?}");
        lines += 1;
    }
    assert!(lines > 100, "{lines}");
    let text = |options: &[&str]| {
        let output = place.command(options).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let calls = text(&["show", "run.shr"]);
    let post =
        line(concat!(env!("CARGO_MANIFEST_DIR"), "/traffic/src/verbs.rs"), "sys::ibv_post_send(");
    assert_has(&calls, &[&format!("soft-hca/traffic/src/verbs.rs:{post}\n"), "ibv_open_device("]);
}

/// Commands that librdmacm makes of a call are one line, and lines of their own where all are asked for.
#[test]
fn commands_of_a_call_are_counted() {
    if !installed(&["rping"]) {
        return;
    }
    let place = Place::new("places-rping");
    let script = place.file("pair");
    fs::write(&script, rping::script(&place, 7743, 1)).unwrap();
    let script = script.to_str().unwrap();
    let text = |options: &[&str]| {
        let output = place.command(options).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    text(&["record", "-o", "run.shr", "--", "sh", script]);
    let calls = text(&["show", "run.shr"]);
    let accepts: Vec<&str> = calls.lines().filter(|line| line.contains("] rdma_accept(")).collect();
    assert!(accepts.iter().any(|line| line.contains(" more commands, in ")), "{calls}");
    assert_has(&calls, &["] rdma_create_qp(pd=", "RDMA_CM_EVENT_ESTABLISHED"]);
    assert!(!calls.contains("] rdma_init_qp_attr("), "{calls}");
    let commands = text(&["show", "--commands", "run.shr"]);
    assert_has(&commands, &["] rdma_init_qp_attr(", "] ibv_create_qp("]);
    place.assert_gone();
}
