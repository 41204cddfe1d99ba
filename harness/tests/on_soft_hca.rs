//! Cases that need a device, on soft-hca; and that its list of differences is checked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::own_network;

/// Where cargo has put the programs: this test is in `deps` below it.
fn bin_dir() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(Path::parent).unwrap().to_owned()
}

fn output_of(command: &mut Command) -> (Output, String) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    (output, text)
}

/// One case of each kind: connections, datagrams, TCP, errors, deaths, the device itself.
const CASES: [&str; 11] = [
    "device-list/one-device",
    "ping-sr-1/run-verify",
    "ping-sr-2/run-loopback",
    "ping-sr-3/kill-client",
    "ping-sr-4/no-server",
    "blast-sr-2/run-verify",
    "rc-example/run-gid-0",
    "rc-example/peer-closes-at-once",
    "mc/run-count-2",
    "apm/run-default",
    "srq/run-count-10",
];

#[test]
fn pairs_behave_as_on_the_recorded_device() {
    if !own_network::is_possible() {
        return;
    }
    let bin_dir = bin_dir();
    for file in ["soft-hca", "libsoft_hca_preload.so", "srq"] {
        let path = bin_dir.join(file);
        assert!(path.exists(), "build the workspace first: {} is missing", path.display());
    }
    let mut soft_hca = std::ffi::OsString::from("--soft-hca=");
    soft_hca.push(bin_dir.join("soft-hca"));
    let mut harness = Command::new(env!("CARGO_BIN_EXE_harness"));
    harness
        .args(["golden", "--device", "one", "--at-once", "3"])
        .arg(soft_hca)
        .arg("--bin-dir")
        .arg(&bin_dir);
    for case in CASES {
        harness.args(["--case", case]);
    }
    let (output, text) = output_of(&mut harness);
    assert!(output.status.success());
    assert!(text.contains("\n8 as the C, 1 differ by design (listed), 2 differ on soft-hca"));
}

/// A case that `/bin/true` passes, and what is listed as different on soft-hca.
fn listed(name: &str, list: &str, inside: bool) -> (Option<i32>, String) {
    let folder = std::env::temp_dir().join(format!("harness-{name}-{}", std::process::id()));
    let case = folder.join("data/mc/nothing");
    fs::create_dir_all(&case).unwrap();
    std::os::unix::fs::symlink("/bin/true", folder.join("mc")).unwrap();
    let data = folder.join("data");
    let files = [
        (
            data.join("cases.json"),
            r#"[{"example": "mc", "case": "nothing", "server": [],
            "client": null, "needs_device": false, "device": "any", "runs": 1, "why": "a test",
            "deterministic": ["server.stdout", "server.stderr", "server.status"]}]"#,
        ),
        (data.join("normalise.json"), r#"{"about": "", "groups": {}, "common": []}"#),
        (data.join("soft-hca.json"), list),
        (case.join("server.stdout"), ""),
        (case.join("server.stderr"), ""),
        (case.join("server.status"), "0\n"),
    ];
    for (path, text) in files {
        fs::write(path, text).unwrap();
    }
    let mut harness = Command::new(env!("CARGO_BIN_EXE_harness"));
    harness.arg("golden").arg("--data").arg(&data).arg("--bin-dir").arg(&folder);
    harness.env_remove("SOFT_HCA_DIR");
    if inside {
        harness.env("SOFT_HCA_DIR", &folder);
    }
    let (output, text) = output_of(&mut harness);
    fs::remove_dir_all(&folder).unwrap();
    (output.status.code(), text)
}

#[test]
fn what_is_listed_for_soft_hca_is_expected_there_only() {
    let differs = r#"[{"example": "mc", "case": "nothing", "reason": "a test",
        "expect": {"server.status": "1"}}]"#;
    let (code, text) = listed("differs", differs, true);
    assert_eq!(code, Some(1));
    assert!(text.contains("server.status: 0, expected 1"));
    let (code, text) = listed("outside", differs, false);
    assert_eq!(code, Some(0));
    assert!(text.contains("1 as the C, 0 differ by design (listed)\n"));
}

#[test]
fn an_entry_that_is_not_needed_fails() {
    let same = r#"[{"example": "mc", "case": "nothing", "reason": "a test",
        "expect": {"server.status": "0"}}]"#;
    let (code, text) = listed("same", same, true);
    assert_eq!(code, Some(1));
    assert!(text.contains("came out like on a device"));
}
