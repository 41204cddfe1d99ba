//! The summary of `./check`.

use std::fs;
use std::process::Command;

use crate::scripts::Folder;
use crate::tree::top;

/// Output of the tests of a stage: two runners that close in their own ways.
const PRINTED: &str = "..
test records::protoc_reads_a_trace ... skipped: protoc is not installed (package protobuf-compiler)
i.
test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s
skipped: Rust's library comes with rustup
2 passed, 0 failed, 1 skipped
";

/// The script's functions, with what they need, and one stage.
const SCRIPT: &str = r#"
source <(sed -n '/^\(counts\|processor_time\|end_writers\|stage\|finish\)() {/,/^}/p' "$1")
logs=$2 only='*' list=no passed=0 failed=0 skipped=0 summary=() failures=() names=() lacks=()
stage "some tests" "${@:3}"
finish
"#;

/// The end of a stage that runs a command of a shell with [`PRINTED`] as input: whether it is a good one, and all that is
/// said.
fn stage(name: &str, line: &str) -> (bool, String) {
    let name = format!("harness-counts-{name}-{}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(name));
    fs::create_dir(&folder.0).unwrap();
    let printed = folder.0.join("printed");
    fs::write(&printed, PRINTED).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-c", SCRIPT, "bash"]).arg(top().join("check")).arg(&folder.0);
    let output = bash.args(["sh", "-c", line, "sh"]).arg(&printed).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.success(), text + &String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_process_that_is_left_behind_fails() {
    let (is_good, text) = stage("left", "sleep 1000 & cat \"$1\"");
    assert!(!is_good, "{text}");
    assert!(text.contains(" was left running: sleep 1000 \n"), "{text}");
    assert!(text.contains("FAILED (status processes left)\n"), "{text}");
}

#[test]
fn skipped_tests_are_counted_and_named() {
    let (is_good, text) = stage("skipped", "cat \"$1\"");
    assert!(is_good, "{text}");
    let (_, summary) = text.split_once("=== summary\n").unwrap();
    let lines: Vec<&str> = summary.lines().collect();
    assert!(lines[0].starts_with("some tests ") && lines[0].ends_with("  ok"), "{summary}");
    let named = [
        "=== skipped",
        "some tests: test records::protoc_reads_a_trace ... skipped: protoc is not installed (package \
         protobuf-compiler)",
        "some tests: skipped: Rust's library comes with rustup",
        "5 passed, 0 failed, 3 skipped",
    ];
    assert_eq!(lines[1..], named);
}
