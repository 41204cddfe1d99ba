//! The demo on two hosts: examples between two network namespaces of this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::limited;

/// Where cargo has put the programs: this test is in `deps` below it.
fn bin_dir() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(Path::parent).unwrap().to_owned()
}

/// In a user namespace, as an ordinary user would have it.
fn unshare(command: &[&str]) -> Command {
    let mut unshare = limited::command("unshare");
    unshare.args(["--map-root-user", "--net"]).args(command);
    unshare
}

/// The folder of the programs; none if this machine does not let two hosts be made.
fn programs() -> Option<PathBuf> {
    let link = ["ip", "link", "add", "name", "link0", "type", "veth", "peer", "name", "link1"];
    let tried = unshare(&link).output().unwrap();
    if !tried.status.success() {
        needs::skipped(String::from_utf8_lossy(&tried.stderr).trim_end());
        return None;
    }
    let bin_dir = bin_dir();
    for file in ["soft-hca", "libsoft_hca_preload.so", "srq"] {
        let path = bin_dir.join(file);
        assert!(path.exists(), "build the workspace first: {} is missing", path.display());
    }
    Some(bin_dir)
}

fn script() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("two_hosts").display().to_string()
}

/// A folder that is removed at the end of its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("{name} {}", std::process::id());
        let folder = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        fs::create_dir_all(&folder.0).unwrap();
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The names of processes with this variable in their environment.
fn with_variable(variable: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let found = processes.filter(|process| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|found| found == variable.as_bytes())
    });
    let name = |process: PathBuf| fs::read_to_string(process.join("cmdline")).unwrap_or_default();
    found.map(name).filter(|name| !name.is_empty()).collect()
}

/// Any signal that ends the script ends both hosts.
#[test]
fn a_signal_ends_both_hosts() {
    let Some(bin_dir) = programs() else { return };
    for (signal, status) in [("TERM", 143), ("HUP", 129)] {
        let folder = Folder::new(&format!("two hosts {signal}"));
        let words = [&script(), bin_dir.to_str().unwrap(), "ping-sr-1", "-c", "50000000"];
        let mut child =
            unshare(&words).env("TMPDIR", &folder.0).stdout(Stdio::piped()).spawn().unwrap();
        limited::wait_for_line(&mut child, "connected cm_id");
        let variable = format!("TMPDIR={}", folder.0.display());
        assert!(with_variable(&variable).len() > 3);
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        assert_eq!(limited::status(&mut child), Some(status));
        // The fabrics end soon after their last programs.
        let end = Instant::now() + Duration::from_secs(60);
        while !with_variable(&variable).is_empty() && Instant::now() < end {
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(with_variable(&variable), [""; 0]);
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
    }
}

/// A script starts the second host's programs, and must quote their path for the shell.
#[test]
fn programs_may_be_anywhere() {
    let Some(bin_dir) = programs() else { return };
    let folder = Folder::new("two \"hosts' $(programs)");
    let sides = ["ping-sr-1-server", "ping-sr-1-client", "libsoft_hca_faulty.so"];
    for file in ["soft-hca", "libsoft_hca_preload.so", "harness"].into_iter().chain(sides) {
        fs::hard_link(bin_dir.join(file), folder.0.join(file)).unwrap();
    }
    let words = [&script(), folder.0.to_str().unwrap(), "ping-sr-1", "-c", "3"];
    let output = unshare(&words).output().unwrap();
    println!("{output:?}");
    assert!(output.status.success());
}

#[test]
fn examples_run() {
    let Some(bin_dir) = programs() else { return };
    for example in
        ["ping-sr-2e", "ping-rdma-3", "atomic", "many-clients", "write-imm", "rc-example", "srq"]
    {
        let words = [&script(), bin_dir.to_str().unwrap(), example];
        let output = unshare(&words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        println!("{text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success());
        let first = "fabric: soft-hca on two hosts, network namespaces of this machine: 192.0.2.1";
        assert!(text.starts_with(first) && text.contains(&format!("\n{example}: ok (")));
    }
}
