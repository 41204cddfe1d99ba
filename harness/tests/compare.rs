//! `harness compare` without the C: programs of this workspace play both parts, and scripts
//! play programs that differ, hang, crash or are not there.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that goes with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("compare-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn script(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/bash\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// One of our programs as an original, under the name that it is called by.
    fn ours(&self, name: &str, program: &str, then: &str) {
        let path = bin_dir().join(program);
        let path = path.display();
        let arg0 = format!("./{program}");
        self.script(name, &format!("set -o pipefail\n(exec -a {arg0} {path} \"$@\"){then}"));
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Where cargo has put the programs: this test is in `deps` below it.
fn bin_dir() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(Path::parent).unwrap().to_owned()
}

fn compare(c: &Folder, args: &[&str]) -> (Output, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    command.args(["compare", "--bin-dir"]).arg(bin_dir()).arg("--c").arg(&c.0).args(args);
    output_of(&mut command)
}

fn output_of(command: &mut Command) -> (Output, String) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    (output, text)
}

#[test]
fn two_builds_that_are_the_same_are_said_to_be() {
    let c = Folder::new("same");
    c.ours("mc", "mc", "");
    let json = c.0.join("found.json");
    let report = c.0.join("report.md");
    let files = ["--json", json.to_str().unwrap(), "--report", report.to_str().unwrap()];
    let args = ["--only", "diff", "--case", "mc/cli-h", "mc", "srq"];
    let (output, text) = compare(&c, &[&args[..], &files].concat());
    assert_eq!(output.status.code(), Some(0));
    assert!(text.contains("  cli-h                            same\n"));
    assert!(text.contains("srq: skipped, no C program srq or srq/srq in "));
    assert!(text.ends_with("0 unexpected, 1 skipped\n"));
    let found: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(found["examples"][0]["cases"][0]["verdict"], "same");
    assert_eq!(found["unexpected"], 0);
    let report = fs::read_to_string(&report).unwrap();
    assert!(report.contains("| mc | 1 | 0 | 0 |"), "{report}");
    assert!(report.contains("### mc\n\n- The receiver's completion queue"), "{report}");
    assert!(report.contains("\nNot compared (no C program srq or srq/srq in "), "{report}");
    assert!(report.contains("): srq.\n"), "{report}");
}

#[test]
fn a_line_that_differs_is_shown_and_counts() {
    let c = Folder::new("differs");
    c.ours("mc", "mc", " | sed 's/-m mcast_addr/-m MCAST_ADDR/; s/usage/USAGE/'");
    let (output, text) = compare(&c, &["--only", "diff", "--case", "mc/cli-h", "mc"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("server: both ends with 1\n"));
    assert!(text.contains("--- C    server.stdout\n      +++ Rust server.stdout\n      @@ -"));
    assert!(text.contains("\n      -USAGE") && text.contains("\n      +usage"));
    assert!(text.contains("\n1 unexpected, 0 skipped\n"));
}

#[test]
fn an_exit_status_that_differs_counts() {
    let c = Folder::new("status");
    c.ours("mc", "mc", "; exit 7");
    let (output, text) = compare(&c, &["--only", "diff", "--case", "mc/cli-h", "mc"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("server: C ends with 7, Rust ends with 1\n"));
}

/// A program in the place of the C's `devices`, run with flags that are not recorded.
fn played(name: &str, script: &str) -> (Option<i32>, String) {
    let c = Folder::new(name);
    c.script("devices/devices", script);
    let args = ["--only", "diff", "--time-limit", "2", "device-list"];
    let (output, text) = compare(&c, &[&args[..], &["--", "any"]].concat());
    (output.status.code(), text)
}

#[test]
fn a_program_that_hangs_is_said_to() {
    let (code, text) = played("hangs", "echo before; sleep 1000");
    assert_eq!(code, Some(1));
    assert!(text.contains("client: C hangs (killed), Rust ends with "));
    assert!(text.contains("-before"));
}

#[test]
fn a_program_that_crashes_is_said_to() {
    let (code, text) = played("crashes", "kill -SEGV $$");
    assert_eq!(code, Some(1));
    assert!(text.contains("client: C crashes (signal 11), Rust ends with "));
}

#[test]
fn a_program_that_cannot_be_started_is_said_to() {
    let c = Folder::new("cannot-start");
    fs::create_dir_all(c.0.join("devices")).unwrap();
    let path = c.0.join("devices/devices");
    fs::write(&path, "#!/nonexistent/interpreter\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let args = ["--only", "diff,speed", "device-list", "--", "any"];
    let (output, text) = compare(&c, &args);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("C: cannot start "), "{text}");
    assert!(text.contains("CANNOT BE MEASURED: C: "), "{text}");
}

#[test]
fn a_case_that_is_none_is_an_error() {
    let c = Folder::new("no-case");
    c.ours("mc", "mc", "");
    let complaint = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
        command.args(["compare", "--bin-dir"]).arg(bin_dir()).arg("--c").arg(&c.0).args(args);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(complaint(&["--case", "nonsense"]).contains("no case is called \"nonsense\""));
    let message = complaint(&["--case", "mc/cli-h", "srq"]);
    assert!(message.contains("is no case of the examples that are named"), "{message}");
    let message = complaint(&["--case", "mc/no-device", "mc"]);
    assert!(message.contains("needs another machine"), "{message}");
    let message = complaint(&["--case", "mc/cli-h", "mc", "--", "-c", "2"]);
    assert!(message.contains("cannot be used with"), "{message}");
}

#[test]
fn flags_are_all_that_is_run_and_known_differences_count_for_them() {
    let c = Folder::new("flags");
    c.script("ping-sr-1e/server", "echo 'server: option count 4294967293' >&2; exit 1");
    c.script("ping-sr-1e/client", "exit 1");
    c.script("ping-sr-0/server", "echo 'server: option count 4294967293' >&2; exit 1");
    c.script("ping-sr-0/client", "exit 1");
    let (output, text) = compare(&c, &["--only", "diff", "ping-sr-0", "--", "-c", "-3"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text.contains("  your flags                       known difference: a negative number")
    );
    assert!(text.contains("\n0 command lines as the C, 1 with known differences"), "{text}");
    // A difference known of one example is not known of another, and not every message is known.
    let (output, text) = compare(&c, &["--only", "diff", "ping-sr-0", "--", "-c", "3x"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("  your flags                       UNEXPECTED"), "{text}");
    let (output, text) = compare(&c, &["--only", "diff", "ping-sr-1", "--", "-c", "3x"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("ping-sr-1: count and size") && !text.contains("skipped, "), "{text}");
}

#[test]
fn without_the_c_it_is_said_what_to_do() {
    let empty = Folder::new("empty");
    for args in [vec![], vec![OsStr::new("--c"), empty.0.as_os_str()]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
        let output = command.arg("compare").args(args).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        for said in [
            "OpenFabrics Alliance's training",
            "RDMA Aware Networks Programming User",
            "./compare --get-c",
            "apt-get install git gcc make libibverbs-dev librdmacm-dev",
            "DIR/ping-sr-1/client",
            "raygift/OpenFabrics-suite-of-examples at 6849b0e",
            "herewego8/rdma_tutorial at 6de8fa3",
            "the line of xrc_domain goes",
            "of the address and of the key are restored",
            "ping-sr-1e of the same repository is ping-sr-1 with",
            "DIR/read-write/rdma-server",
            "its texts have 20 characters",
            "./compare --c DIR",
        ] {
            assert!(message.contains(said), "{said}: {message}");
        }
    }
    let missing = Folder::new("ours-missing");
    missing.script("mc", "exit 1");
    let (output, _) = compare(&missing, &["--bin-dir=/nonexistent", "mc"]);
    assert_eq!(output.status.code(), Some(2));
}

/// A program `ssh` that runs the command here.
fn fake_ssh(folder: &Folder) -> String {
    folder.script(
        "path/ssh",
        "[[ $1 == -o ]] && shift 2\necho \"$1\" >>\"$0.hosts\"\nshift\nexec sh -c \"$*\"",
    );
    let path = std::env::var("PATH").unwrap();
    format!("{}:{path}", folder.0.join("path").display())
}

#[test]
fn programs_run_on_other_hosts_over_ssh() {
    let c = Folder::new("ssh");
    c.ours("mc", "mc", "");
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    command
        .args(["compare", "--server-host", "host1", "--client-host", "host2", "--remote-dir", "/"])
        .args(["--address", "192.0.2.1", "--only", "diff", "--case", "mc/cli-h", "mc", "--bin-dir"])
        .arg(bin_dir())
        .arg("--c")
        .arg(&c.0)
        .env("PATH", fake_ssh(&c));
    let (output, text) = output_of(&mut command);
    assert_eq!(output.status.code(), Some(0));
    assert!(text.contains("  cli-h                            same\n"));
    assert_eq!(fs::read_to_string(c.0.join("path/ssh.hosts")).unwrap(), "host1\nhost1\n");
    // A host that cannot be reached is no program that has ended.
    c.script("path/ssh", "echo 'ssh: no such host' >&2; exit 255");
    let (output, text) = output_of(&mut command);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("C: ssh: no such host"), "{text}");
}

/// The program that makes a fabric, if it works here.
fn soft_hca() -> Option<PathBuf> {
    let soft_hca = bin_dir().join("soft-hca");
    let doctor = Command::new(&soft_hca).arg("doctor").output();
    if doctor.is_ok_and(|output| output.status.success()) {
        return Some(soft_hca);
    }
    needs::missing("soft-hca does not work here");
    None
}

/// Compares on soft-hca with a C that is ours, with a client that is changed: `change` stands
/// behind it in a pipe with its standard error, `before` in front of it.
fn with_mutant(example: &str, before: &str, change: &str, args: &[&str]) -> Option<String> {
    soft_hca()?;
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let c = Folder::new(&format!("mutant-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
    let [server, client] =
        ["server", "client"].map(|side| bin_dir().join(format!("{example}-{side}")));
    fs::create_dir_all(c.0.join(example)).unwrap();
    std::os::unix::fs::symlink(server, c.0.join(example).join("server")).unwrap();
    let client = client.display();
    let run = format!("(exec -a ./client {client} \"$@\")");
    let name = format!("{example}/client");
    c.script(
        &name,
        &format!("set -o pipefail\n{{ {before}{run} 2>&1 >&3 3>&- | {change} >&2; }} 3>&1"),
    );
    Some(differing(&c, example, args).1)
}

/// Compares the command lines of an example with a C suite.
fn differing(c: &Folder, example: &str, args: &[&str]) -> (Output, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    command
        .args(["compare", "--soft-hca", "--bin-dir"])
        .arg(bin_dir())
        .arg("--c")
        .arg(&c.0)
        .arg(example);
    if !args.contains(&"--only") {
        command.args(["--only", "diff"]);
    }
    command.args(args);
    output_of(&mut command)
}

#[test]
fn a_c_that_measures_otherwise_is_found() {
    let flags = ["--", "-c", "20", "-x"];
    let rate = |unit: &str, by: &str| {
        format!("awk '/{unit}/ {{ $2 = sprintf(\"%.6f\", $2 {by}) }} {{ print }}'")
    };
    for (change, found) in [
        (rate("Megabits per", "/ 8"), "C: client.stderr: "),
        (rate("Messages per", "/ 2"), "C: client.stderr: "),
        (
            "sed 's/ \\([0-9.]*\\) seconds elapsed/ 50\\1 seconds elapsed/'".to_owned(),
            " seconds in a run of ",
        ),
        (rate("microseconds per", "* 2"), " microseconds per round-trip, but "),
        (
            "sed 's/user time (.*%)/user time (99.8765%)/'".to_owned(),
            "C: client.stderr: 99.8765 percent",
        ),
    ] {
        let Some(text) = with_mutant("ping-sr-0", "", &change, &flags) else { return };
        assert!(text.contains("UNEXPECTED") && text.contains(found), "{change}");
    }
    let text = with_mutant("ping-sr-0", "", "cat", &flags).unwrap();
    assert!(text.contains(" same\n"));
}

#[test]
fn a_c_that_takes_longer_is_found() {
    let recorded = ["--case", "run-verify"];
    for args in [&recorded[..], &["--", "-c", "1"]] {
        let Some(text) = with_mutant("ping-sr-1", "sleep 2; ", "cat", args) else { return };
        assert!(text.starts_with("fabric: soft-hca\n"));
        assert!(text.contains("UNEXPECTED\n      C takes "));
    }
}

/// Shell commands that count in `n`, from 1, how often they were run.
const COUNTS: &str = "n=$(cat \"$0.n\" 2>/dev/null || echo 0); n=$((n + 1)); echo $n >\"$0.n\"; ";

#[test]
fn a_c_that_takes_longer_now_and_then_is_the_same() {
    let slow = format!("{COUNTS} ((n > 4)) || sleep 2; ");
    let case = ["--case", "run-verify"];
    let Some(text) = with_mutant("ping-sr-1", &slow, "cat", &case) else { return };
    assert!(text.contains("run-verify                       same\n"));
}

#[test]
fn a_c_that_fails_now_and_then_is_measured() {
    let fails = format!("{{ cat; [[ $* == -h ]] || {{ {COUNTS} ((n != 1 && n != 4)); }}; }}");
    let args = ["--only", "speed", "--runs", "2", "--seconds", "0.01"];
    let Some(text) = with_mutant("ping-sr-1", "", &fails, &args) else { return };
    assert!(text.contains(" us each, ") && !text.contains("CANNOT BE MEASURED"), "{text}");
    // A C that always fails is reported.
    let text = with_mutant("ping-sr-1", "", "{ cat; [[ $* == -h ]]; }", &args).unwrap();
    assert!(text.contains("CANNOT BE MEASURED: C: "));
}

#[test]
fn a_c_with_other_descriptors_or_another_count_is_found() {
    let flags = ["--", "-c", "1", "-t"];
    let Some(text) = with_mutant("ping-sr-3", "", "sed 's/assigned fd /&4/'", &flags) else {
        return;
    };
    assert!(text.contains("UNEXPECTED"));
    // The recorded output varies: a number that is another one in this C alone does not.
    let count = "sed 's/option count [0-9]*/option count 77/'";
    let case = ["--case", "run-trace-detailed"];
    let text = with_mutant("ping-sr-3", "", count, &case).unwrap();
    assert!(text.contains(" ours is as the recorded C; this C is not\n"), "{text}");
}

#[test]
fn a_difference_that_is_listed_for_a_neighbour_explains_what_is_alike() {
    // The C accepts a port that has no more than 16 bits of what was given.
    if soft_hca().is_none() {
        return;
    }
    let c = Folder::new("neighbour");
    for side in ["server", "client"] {
        let port =
            "args=(); for a in \"$@\"; do [[ $a == 77857 ]] && a=12321; args+=(\"$a\"); done";
        let program = bin_dir().join(format!("ping-sr-4-{side}"));
        let program = program.display();
        c.script(
            &format!("ping-sr-4/{side}"),
            &format!("{port}\nexec -a ./{side} {program} \"${{args[@]}}\""),
        );
    }
    let (output, text) = differing(&c, "ping-sr-4", &["--", "-c", "1", "-p", "77857"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text.contains("known difference: a port over 65535 is refused"), "{text}");
}

#[test]
fn what_is_found_side_by_side_is_told_in_order() {
    if soft_hca().is_none() {
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    command
        .args(["compare", "--soft-hca", "--at-once", "3", "--only", "calls,interop,diff,speed"])
        .args(["--runs", "1", "--seconds", "0.01", "srq", "atomic", "mc"])
        .args(["--case", "mc/cli-h", "--case", "srq/cli-h"])
        // Our programs play the C's part, too.
        .arg("--c")
        .arg(bin_dir())
        .arg("--bin-dir")
        .arg(bin_dir());
    let (_, text) = output_of(&mut command);
    let told = [
        "\nsrq: ",
        "  cli-h ",
        "  calls -c 10 -l 1000 ",
        "  Rust server, Rust client: ",
        "\natomic: ",
        "  skipped: ",
        "\nmc: ",
        "  cli-h ",
        "  calls -c 2 ",
        "\nspeed and cost\n  srq\n",
        "  Rust: ",
        "\n  mc\n",
        "  Rust: ",
        " minutes\n",
        "2 command lines as the C",
    ];
    let mut rest = text.as_str();
    for part in told {
        let Some((_, after)) = rest.split_once(part) else { panic!("no {part:?} in {rest}") };
        rest = after;
    }
}

#[test]
fn calls_are_compared_on_soft_hca_alone() {
    let c = Folder::new("calls");
    c.ours("mc", "mc", "");
    for part in ["calls", "failing"] {
        let (output, _) = compare(&c, &["--only", part, "mc"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("on soft-hca"), "{said}");
    }
}

#[test]
fn pairs_run_and_are_measured_on_soft_hca_here_and_over_ssh() {
    let Some(soft_hca) = soft_hca() else { return };
    // Of one machine both say the same.
    let other = Folder::new("machine");
    other.ours("devices/devices", "device-list", " |& sed 's/part id [0-9]*/part id 77/' >&2");
    let mut command = Command::new(&soft_hca);
    command
        .args(["run", "--fabric", &format!("machine-{}", std::process::id()), "--"])
        .arg(env!("CARGO_BIN_EXE_harness"))
        .args(["compare", "--only", "diff", "--case", "device-list/one-device", "--bin-dir"])
        .arg(bin_dir())
        .arg("--c")
        .arg(&other.0);
    let (output, text) = output_of(&mut command);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("UNEXPECTED") && text.contains("-part id 77"), "{text}");

    let folder = Folder::new("pairs");
    let json = folder.0.join("found.json");
    fake_ssh(&folder);
    let ssh = format!("{} -o Port=22", folder.0.join("path/ssh").display());
    let remote = ["--server-host", "host1", "--client-host", "host2", "--ssh", &ssh];
    for hosts in [&[][..], &remote] {
        let mut command = Command::new(&soft_hca);
        command
            .args(["run", "--fabric", &format!("compare-{}", std::process::id()), "--"])
            .arg(env!("CARGO_BIN_EXE_harness"))
            .args(["compare", "--address", "127.0.0.1", "--only", "interop,speed"])
            .args(["--runs", "2", "--seconds", "0.01", "--json", json.to_str().unwrap()])
            .args(hosts)
            .args(["ping-sr-1", "rc-example", "--c"])
            // Our programs play the C's part, too.
            .arg(bin_dir())
            .arg("--bin-dir")
            .arg(bin_dir());
        let (_, text) = output_of(&mut command);
        assert!(text.contains("8 of 8 pairings work\n"));
        let found: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        let speed = &found["examples"][0]["speed"];
        assert_eq!(speed["waits"], "busy-polling");
        // Up to four times as many as asked for, where chance might decide.
        assert!((2..=8).contains(&speed["runs"].as_u64().unwrap()), "{speed}");
        for maker in ["c", "rust"] {
            for what in ["microseconds", "per_second", "client_peak_kib", "server_peak_kib"] {
                assert!(speed[maker][what].as_f64().unwrap() > 0.0, "{maker} {what}: {speed}");
            }
        }
        assert!(speed["time"]["median"].as_f64().unwrap() > 0.0);
        assert_eq!(found["examples"][1]["speed"]["waits"], "once");
    }
    let hosts = fs::read_to_string(folder.0.join("path/ssh.hosts")).unwrap();
    assert!(hosts.contains("host1\n") && hosts.contains("host2\n"));
}
